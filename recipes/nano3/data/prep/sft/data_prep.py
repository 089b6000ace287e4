# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "fsspec==2026.9.0",
#   "jinja2==3.1.6",
#   "numpy==2.4.6",
#   "pyarrow==26.0.1",
#   "pyyaml==6.0.3",
#   "ray==2.60.0",
#   "tokenizers==0.23.3",
#   "transformers==5.23.0",
# ]
#
# [tool.runspec]
# schema = "1"
# name = "nano3/data/prep/sft"
# description = "Render conversations with a chat template and pack them into rows of one length (Parquet)."
# kind = "data"
# image = "nvcr.io/nvidia/nemo:25.11.nemotron_3_nano"
# download = "about 200 MB"
#
# [tool.runspec.run]
# launch = "ray"
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
# name = "pretrain"
# type = "pretrain_blend"
# description = "What nano3/data/prep/pretrain wrote, for its tokenizer."
# required = false
# recipe = "nano3/data/prep/pretrain"
#
# [[tool.runspec.produces]]
# name = "data"
# type = "packed_parquet"
# description = "train.parquet and valid.parquet: input_ids, loss_mask, seq_start_id; tokenizer/ and manifest.json."
#
# [[tool.runspec.parameters]]
# name = "paths"
# description = "Patterns of .jsonl files with conversations: messages with role and content."
#
# [[tool.runspec.parameters]]
# name = "tokenizer.path"
# description = "A folder or a Hugging Face name."
#
# [[tool.runspec.parameters]]
# name = "tokenizer.chat_template"
# description = "A file with a chat template; leave it out for the tokenizer's own."
#
# [[tool.runspec.parameters]]
# name = "sequence_length"
# description = "How many tokens a packed row holds at most."
# type = "int"
# min = 2
#
# [[tool.runspec.parameters]]
# name = "too_long"
# description = "What happens to a conversation that is longer than a row."
# choices = ["drop", "cut", "fail"]
#
# [[tool.runspec.parameters]]
# name = "valid"
# description = "Share of the conversations that go to validation."
#
# [[tool.runspec.parameters]]
# name = "workers"
# description = "The most tasks at a time; by default one for each CPU of the cluster."
# ///
"""Turns conversations into the packed rows that fine-tuning reads; the same inputs give the same bytes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "_shared"))

from nano3.settings import build, start


def main(config: dict[str, Any]) -> None:
    """Prepare the dataset."""
    from nano3.prepare_sft import SftSettings, prepare

    prepare(build(SftSettings, config), Path(__file__).resolve().parent)


if __name__ == "__main__":
    sys.exit(start("Prepare conversations for fine-tuning.", main))
