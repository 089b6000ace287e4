# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "data-designer==0.9.6",
#   "pyyaml==6.0.3",
# ]
#
# [tool.runspec]
# schema = "1"
# name = "steps/sdg/data_designer"
# description = "Synthesize rows with Data Designer: sampled columns, and columns that a served model writes."
# kind = "data"
# tags = ["sdg", "data-designer"]
# download = "about 200 MB"
#
# [tool.runspec.run]
# launch = "direct"
#
# [tool.runspec.config]
# dir = "./config"
# default = "default"
#
# [tool.runspec.resources]
# nodes = 1
# gpus_per_node = 0
#
# [[tool.runspec.consumes]]
# name = "seeds"
# type = "training_jsonl"
# description = "Rows to build on: prompts may name their columns."
# required = false
#
# [[tool.runspec.produces]]
# name = "synthetic"
# type = "synthetic_jsonl"
# description = "synthetic.jsonl: one row per record, with the columns that rows names."
#
# [[tool.runspec.parameters]]
# name = "num_records"
# description = "How many rows to ask for."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "endpoint.url"
# description = "Address of an OpenAI-compatible server, with /v1."
# type = "str"
#
# [[tool.runspec.parameters]]
# name = "endpoint.key_variable"
# description = "The variable that holds the server's key; null for a server without one."
# type = "str"
#
# [[tool.runspec.parameters]]
# name = "designer"
# description = "Data Designer's own configuration: model_configs, columns, constraints, processors."
# type = "table"
# ///
"""Synthesizes rows with Data Designer: its own configuration stands in ours, a served model writes the columns."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "_shared"))

from nemo_steps import designer, files, runner
from nemo_steps.config import Config, ConfigError, find, need, only, output_folder

KEYS = ("output_dir", "seeds", "num_records", "endpoint", "designer", "rows")


def main(config: Config) -> None:
    """Generate the rows, and write those that are whole."""
    only(config, "", KEYS)
    output, wanted = output_folder(config), need(config, "num_records", int)
    shape, seeds = need(config, "rows", dict), find(config, "seeds", str)
    built_on = files.read_rows(files.row_files(seeds)) if seeds else None
    records = designer.generate(config, output / ".designer", wanted, need(config, "designer", dict), built_on)
    made = [row_of(record, shape) for record in records]
    files.write_rows(output / "synthetic.jsonl", made)
    print(f"made {len(made)} of {wanted} rows")
    print(f"wrote {output}")


def row_of(record: dict[str, Any], shape: Any) -> Any:
    """A row in the wanted shape: wherever the shape says `$column`, the record's value stands.

    Raises:
        ConfigError: there is no such column.
    """
    if isinstance(shape, dict):
        return {key: row_of(record, value) for key, value in shape.items()}
    if isinstance(shape, list):
        return [row_of(record, value) for value in shape]
    if not (isinstance(shape, str) and shape.startswith("$")):
        return shape
    if shape[1:] not in record:
        raise ConfigError(f"rows names {shape}, and the columns are {', '.join(sorted(record))}")
    return record[shape[1:]]


if __name__ == "__main__":
    sys.exit(runner.start("Synthesize rows with Data Designer.", main))
