# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "jinja2==3.1.6",
#   "matplotlib==3.11.2",
#   "numpy==2.4.6",
#   "pyarrow==26.0.1",
#   "pyyaml==6.0.3",
#   "safetensors==0.8.0",
#   "tokenizers==0.23.3",
#   "torch==2.13.0",
#   "transformers==5.23.0",
# ]
#
# [tool.runspec]
# schema = "1"
# name = "nano3/sft"
# description = "Fine-tune Nemotron 3 Nano on conversations: with Megatron-Bridge, or tiny on two processor cores."
# kind = "train"
# image = "nvcr.io/nvidia/nemo:25.11.nemotron_3_nano"
# download = "about 320 MB with the CPU build of torch; several GB with the CUDA build"
#
# [tool.runspec.run]
# launch = "torchrun"
#
# [tool.runspec.config]
# dir = "./config"
# default = "default"
#
# [tool.runspec.resources]
# nodes = 1
# gpus_per_node = 8
#
# [[tool.runspec.consumes]]
# name = "data"
# type = "packed_parquet"
# description = "What nano3/data/prep/sft wrote: train.parquet, valid.parquet, tokenizer/."
# required = true
#
# [[tool.runspec.consumes]]
# name = "base"
# type = "model"
# description = "What nano3/pretrain wrote: the model to begin with."
# required = true
# recipe = "nano3/pretrain"
#
# [[tool.runspec.consumes]]
# name = "text"
# type = "pretrain_blend"
# description = "Prepared pretraining text, which the tiny path mixes into its batches so that it is not forgotten."
# required = false
#
# [[tool.runspec.produces]]
# name = "model"
# type = "model"
# description = "Checkpoints and metrics.jsonl; the tiny path also writes hf/ (with the chat template) and loss.png."
#
# [[tool.runspec.parameters]]
# name = "train.train_iters"
# description = "How many steps to train."
#
# [[tool.runspec.parameters]]
# name = "train.global_batch_size"
# description = "Conversations (at full size: packed rows) per step, over all processes."
#
# [[tool.runspec.parameters]]
# name = "optimizer.lr"
# description = "The highest learning rate."
#
# [[tool.runspec.parameters]]
# name = "checkpoint.load"
# description = "A folder of checkpoints to go on from."
# ///
"""Fine-tunes Nemotron 3 Nano on the answers of conversations: a configuration with `recipe._target_` goes to
Megatron-Bridge, one without it to the tiny path in transformers. Only the chosen one is imported.
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

        return bridge.finetune(config)
    with loading():
        from nano3.tiny.finetuning import FineTuning
        from nano3.tiny.loop import train
        from nano3.tiny.settings import SftSettings
    return train(build(SftSettings, config), FineTuning)


if __name__ == "__main__":
    sys.exit(start("Fine-tune Nemotron 3 Nano.", main))
