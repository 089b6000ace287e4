# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "matplotlib==3.11.2",
#   "numpy==2.4.6",
#   "pyyaml==6.0.3",
#   "safetensors==0.8.0",
#   "tokenizers==0.23.3",
#   "torch==2.13.0",
#   "transformers==5.23.0",
# ]
#
# [tool.runspec]
# schema = "1"
# name = "nano3/pretrain"
# description = "Pretrain Nemotron 3 Nano: at full size with Megatron-Bridge, small, or tiny on two processor cores."
# kind = "train"
# image = "nvcr.io/nvidia/nemo:25.11.nemotron_3_nano"
# download = "about 270 MB with the CPU build of torch; several GB with the CUDA build"
#
# [tool.runspec.run]
# launch = "torchrun"
#
# [tool.runspec.config]
# dir = "./config"
# default = "default"
#
# [tool.runspec.resources]
# nodes = 2
# gpus_per_node = 8
#
# [[tool.runspec.consumes]]
# name = "data"
# type = "pretrain_blend"
# description = "What nano3/data/prep/pretrain wrote: blend.json, .bin/.idx files, tokenizer/, manifest.json."
# required = true
# recipe = "nano3/data/prep/pretrain"
#
# [[tool.runspec.produces]]
# name = "model"
# type = "model"
# description = "Checkpoints and metrics.jsonl; the tiny path also writes hf/ (a Hugging Face checkpoint) and loss.png."
#
# [[tool.runspec.parameters]]
# name = "train.train_iters"
# description = "How many steps to train."
#
# [[tool.runspec.parameters]]
# name = "train.global_batch_size"
# description = "Sequences per step, over all processes."
#
# [[tool.runspec.parameters]]
# name = "optimizer.lr"
# description = "The highest learning rate."
#
# [[tool.runspec.parameters]]
# name = "checkpoint.load"
# description = "A folder of checkpoints to go on from."
# ///
"""Pretrains Nemotron 3 Nano: a configuration with `recipe._target_` goes to Megatron-Bridge, one with `model` alone to
the tiny path in transformers. Only the chosen one is imported.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "_shared"))

from nano3.settings import build, loading, start


def main(config: dict[str, Any]) -> int:
    """Train; the exit status."""
    if "recipe" in config:
        from nano3 import bridge

        return bridge.train(config)
    with loading():
        from nano3.tiny.loop import train
        from nano3.tiny.pretraining import Pretraining
        from nano3.tiny.settings import TinySettings
    return train(build(TinySettings, config), Pretraining)


if __name__ == "__main__":
    sys.exit(start("Pretrain Nemotron 3 Nano.", main))
