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
# name = "nano3/data/prep/rl"
# description = "Turn rows into prompts with the answers that a reward is computed from, checked, split, none twice."
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
# type = "training_jsonl"
# description = "train.jsonl and valid.jsonl in the form that NeMo-RL reads (input, output), and manifest.json."
#
# [[tool.runspec.parameters]]
# name = "paths"
# description = "Patterns of .jsonl files with prompts and answers, or with conversations that end with an answer."
#
# [[tool.runspec.parameters]]
# name = "max_characters"
# description = "Rows with a longer prompt are dropped."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "valid"
# description = "Share of the rows that go to validation."
#
# [[tool.runspec.parameters]]
# name = "workers"
# description = "The most tasks at a time; by default one for each CPU of the cluster."
# ///
"""Turns rows into the prompts that reinforcement learning reads; the same inputs give the same bytes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "_shared"))

from nano3.settings import build, start


def main(config: dict[str, Any]) -> None:
    """Prepare the dataset."""
    from nano3.prepare_rl import RlSettings, prepare

    prepare(build(RlSettings, config), Path(__file__).resolve().parent)


if __name__ == "__main__":
    sys.exit(start("Prepare prompts for reinforcement learning.", main))
