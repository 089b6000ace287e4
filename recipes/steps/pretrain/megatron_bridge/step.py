# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.runspec]
# schema = "1"
# name = "steps/pretrain/megatron_bridge"
# description = "Pretrain on indexed tokens with a recipe of Megatron-Bridge."
# kind = "train"
# tags = ["pretrain", "megatron"]
# image = "nvcr.io/nvidia/nemo:25.11.nemotron_3_nano"
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
# type = "binidx"
# description = "Files .bin and .idx, with blend.json and tokenizer/, as data_prep/pretrain_prep writes them."
#
# [[tool.runspec.consumes]]
# name = "base"
# type = "checkpoint_megatron"
# description = "A checkpoint to go on from."
# required = false
#
# [[tool.runspec.produces]]
# name = "model"
# type = "checkpoint_megatron"
# description = "Checkpoints: iter_<step>/ and what names the latest."
#
# [[tool.runspec.parameters]]
# name = "train.train_iters"
# description = "How many steps to train."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "train.global_batch_size"
# description = "Sequences per step, over all processes."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "train.micro_batch_size"
# description = "Sequences that a GPU takes at once."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "optimizer.lr"
# description = "The highest learning rate."
# type = "float"
# min = 0
#
# [[tool.runspec.parameters]]
# name = "model.seq_length"
# description = "Tokens of a sequence; as dataset.seq_length."
# type = "int"
# min = 1
#
# [[tool.runspec.models]]
# name = "megatron.bridge.recipes.nemotronh.nemotron_3_nano.nemotron_3_nano_pretrain_config"
# description = "Nemotron 3 Nano, 30 billion parameters, 8 experts' groups."
# parameter = "recipe._target_"
# min_gpus = 8
#
# [[tool.runspec.errors]]
# pattern = "CUDA out of memory"
# cause = "The model, its optimizer and a batch do not fit in the GPUs' memory."
# remedy = "more GPUs, larger model.tensor_model_parallel_size, or a smaller train.micro_batch_size"
#
# [[tool.runspec.errors]]
# pattern = "Invalid pretrained checkpoint directory|PEFT requires a pretrained checkpoint"
# cause = "The checkpoint to begin with is not there."
# remedy = "run.base.path=… a folder with iter_<step>, as convert/hf_to_megatron makes"
# ///
"""Pretrains on indexed tokens with a recipe of Megatron-Bridge.

The sections of the configuration are Megatron-Bridge's own.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "_shared"))

from nemo_steps import bridge, bridge_data, runner
from nemo_steps.config import Config, need, output_folder


def main(config: Config) -> None:
    """Train on the tokens of `data`."""
    output_folder(config)
    container = bridge.container_of(config)
    bridge_data.use_tokens(container, need(config, "data", str))
    bridge.train(container)


if __name__ == "__main__":
    sys.exit(runner.start("Pretrain with Megatron-Bridge.", main, alone=False))
