# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "numpy==2.4.6",
#   "pyyaml==6.0.3",
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
# download = "about 50 MB"
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
# description = "Threads that tokenise."
# ///
"""Turns text into the dataset that pretraining reads; the same inputs give the same bytes, and a half is never seen."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "_shared"))

from nano3.settings import SettingsError, build, config_argument, read_yaml


def main() -> int:
    """Read the configuration and prepare the dataset; 2 means that the configuration must be mended."""
    try:
        config = read_yaml(config_argument("Prepare pretraining data."))
        os.environ["RAYON_NUM_THREADS"] = str(config.get("workers", 1))  # read by tokenizers when it is imported
        from nano3.prepare import PrepareSettings, prepare

        prepare(build(PrepareSettings, config), Path(__file__).resolve().parent)
    except SettingsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
