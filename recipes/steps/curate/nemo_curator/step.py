# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "nemo-curator==1.4.0",
#   "pyyaml==6.0.3",
#   "torch==2.13.0",
# ]
#
# [tool.runspec]
# schema = "1"
# name = "steps/curate/nemo_curator"
# description = "Clean and filter documents with NeMo Curator: JSON lines in, the documents that pass out."
# kind = "data"
# tags = ["curate", "filter", "nemo-curator"]
# download = "about 400 MB with the CPU build of torch"
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
# [tool.runspec.env]
# RAY_ENABLE_UV_RUN_RUNTIME_ENV = "0"
#
# [[tool.runspec.consumes]]
# name = "data"
# type = "raw_jsonl"
# description = "Documents as they were collected: a file with JSON lines, or a folder of them."
#
# [[tool.runspec.produces]]
# name = "filtered"
# type = "filtered_jsonl"
# description = "The documents that passed every filter, each with its scores where score_fields is true."
#
# [[tool.runspec.parameters]]
# name = "text_field"
# description = "The key of a row that holds the text."
# type = "str"
#
# [[tool.runspec.parameters]]
# name = "modifiers"
# description = "What is changed in a text before it is judged, in order: classes of NeMo Curator."
# type = "list"
#
# [[tool.runspec.parameters]]
# name = "filters"
# description = "By what documents are dropped, in order: classes of NeMo Curator with their own arguments."
# type = "list"
#
# [[tool.runspec.parameters]]
# name = "files_per_partition"
# description = "Files that one task reads."
# type = "int"
# min = 1
# ///
"""Cleans and filters documents with NeMo Curator's stages, which Ray runs on every processor of the machine."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "_shared"))

from nemo_steps import files, runner
from nemo_steps.config import Config, ConfigError, find, need, only, output_folder

KEYS = ("output_dir", "data", "text_field", "modifiers", "filters", "score_fields", "files_per_partition", "cpus")
MODIFIERS = ("nemo_curator.stages.text.modifiers",)
FILTERS = (
    "nemo_curator.stages.text.filters.heuristic",
    "nemo_curator.stages.text.filters.heuristic.repetition",
)
OLD_PARTS = "*.jsonl"


def main(config: Config) -> None:
    """Run the pipeline, and say how many documents are left."""
    only(config, "", KEYS)
    output, sources = output_folder(config), files.row_files(need(config, "data", str))
    for old in output.glob(OLD_PARTS):
        old.unlink()  # of an attempt before this one
    read = sum(1 for _ in files.read_rows(sources))  # a wrong line is named here, with its file
    run(list(stages(config, sources, output)), find(config, "cpus", int))
    kept = sum(1 for _ in files.read_rows(sorted(output.glob(OLD_PARTS))))
    if not kept:
        raise ConfigError(f"no document of {read} passed: see filters")
    print(f"kept {kept} of {read} documents")
    print(f"wrote {output}")


def stages(config: Config, sources: list[Path], output: Path) -> Iterator[Any]:
    """The pipeline's stages: read, change, filter, write."""
    from nemo_curator.stages.text.filters import ScoreFilter
    from nemo_curator.stages.text.io.reader import JsonlReader
    from nemo_curator.stages.text.io.writer import JsonlWriter
    from nemo_curator.stages.text.modifiers import Modify

    field, scores = need(config, "text_field", str), find(config, "score_fields", bool)
    yield JsonlReader(
        file_paths=[str(source) for source in sources], files_per_partition=need(config, "files_per_partition", int)
    )
    for _, modifier in made(config, "modifiers", MODIFIERS):
        yield Modify(modifier, input_fields=field)
    for name, document_filter in made(config, "filters", FILTERS):
        yield ScoreFilter(document_filter, text_field=field, score_field=name if scores else None)
    yield JsonlWriter(path=str(output))


def run(pipeline: list[Any], cpus: int | None) -> None:
    """Run stages on a Ray of this process's own, or on the one that RAY_ADDRESS names."""
    import ray
    from nemo_curator.backends.ray_data import RayDataExecutor
    from nemo_curator.pipeline import Pipeline

    ray.init(num_cpus=cpus, num_gpus=0, include_dashboard=False)
    Pipeline(name="curate", stages=pipeline).run(RayDataExecutor())
    ray.shutdown()


def made(config: Config, key: str, modules: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """The name and the object of every entry of a list: `{name: Class, argument: value, …}`.

    Raises:
        ConfigError: an entry is no such mapping, the library has no such class, or it refuses the arguments.
    """
    for place, entry in enumerate(need(config, key, list)):
        where = f"{key}[{place}]"
        if not isinstance(entry, Mapping) or "name" not in entry:
            raise ConfigError(f"{where} must be a mapping with a name")
        arguments = {str(name): value for name, value in entry.items() if name != "name"}
        try:
            yield str(entry["name"]), class_named(str(entry["name"]), where, modules)(**arguments)
        except TypeError as error:
            raise ConfigError(f"{where}: {error}") from error


def class_named(name: str, where: str, modules: tuple[str, ...]) -> Any:
    """A class that one of the library's modules has.

    Raises:
        ConfigError: none has it; names those that there are.
    """
    public = {item: vars(loaded)[item] for module in modules for loaded in [load(module)] for item in loaded.__all__}
    if name not in public:
        raise ConfigError(f"{where}.name {name!r} is none of {', '.join(sorted(public))}")
    return public[name]


def load(module: str) -> Any:
    """A module of the library."""
    return importlib.import_module(module)


if __name__ == "__main__":
    sys.exit(runner.start("Clean and filter documents.", main))
