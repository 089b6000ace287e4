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
# name = "nano3/data/prep/pretrain"
# description = "Turn text into Megatron .bin/.idx files with a blend.json, a tokenizer and a manifest."
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
# [[tool.runspec.produces]]
# name = "data"
# type = "pretrain_blend"
# description = "Tokenised documents per split, blend.json, tokenizer/ and manifest.json."
#
# [[tool.runspec.parameters]]
# name = "datasets"
# description = "What to read: for each dataset a name, file patterns and a weight."
#
# [[tool.runspec.parameters]]
# name = "tokenizer.path"
# description = "A folder or a Hugging Face name; leave it out to train one on the text."
#
# [[tool.runspec.parameters]]
# name = "tokenizer.train_vocab_size"
# description = "How many tokens a tokenizer trained on the text has."
#
# [[tool.runspec.parameters]]
# name = "split.valid"
# description = "Share of the documents that go to validation."
#
# [[tool.runspec.parameters]]
# name = "workers"
# description = "The most tasks at a time; by default one for each CPU of the cluster."
#
# [[tool.runspec.parameters]]
# name = "shard_bytes"
# description = "How much text one task reads, about; what is written does not depend on it."
# ///
"""Turns text into the dataset that pretraining reads; the same inputs give the same bytes, and a half is never seen."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "_shared"))

from nano3.settings import build, start


def main(config: dict[str, Any]) -> None:
    """Prepare the dataset."""
    from nano3.prepare import PrepareSettings, prepare

    prepare(build(PrepareSettings, config), Path(__file__).resolve().parent)


if __name__ == "__main__":
    sys.exit(start("Prepare pretraining data.", main))
