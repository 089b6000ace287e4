# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.runspec]
# schema = "1"
# name = "steps/peft/megatron_bridge"
# description = "Train a LoRA adapter on packed sequences with a recipe of Megatron-Bridge."
# kind = "train"
# tags = ["peft", "lora", "megatron"]
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
# type = "packed_parquet"
# description = "Packed sequences: train.parquet and valid.parquet."
#
# [[tool.runspec.consumes]]
# name = "base"
# type = "checkpoint_megatron"
# description = "The checkpoint that the adapter is for; its weights stay as they are."
#
# [[tool.runspec.produces]]
# name = "model"
# type = "checkpoint_lora"
# description = "Checkpoints of the adapter, in Megatron's format."
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
# name = "lora.dim"
# description = "The adapter's rank."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "lora.alpha"
# description = "The adapter's weight, over its rank."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "lora.target_modules"
# description = "Which modules get an adapter, as Megatron calls them."
# type = "list"
#
# [[tool.runspec.models]]
# name = "megatron.bridge.recipes.nemotronh.nemotron_3_nano.nemotron_3_nano_peft_config"
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
"""Trains a LoRA adapter on packed sequences with a recipe of Megatron-Bridge.

The sections of the configuration are Megatron-Bridge's own.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "_shared"))

from nemo_steps import bridge, bridge_data, runner
from nemo_steps.config import Config, need, output_folder


def main(config: Config) -> None:
    """Train an adapter on the packed rows of `data` for the checkpoint `base`."""
    from megatron.bridge.peft.lora import LoRA

    output = output_folder(config)
    need(config, "base", str)
    container = bridge.container_of({key: value for key, value in config.items() if key != "lora"})
    container.peft = LoRA(**need(config, "lora", dict))
    bridge_data.use_packed(container, need(config, "data", str), output)
    bridge.train(container)


if __name__ == "__main__":
    sys.exit(runner.start("Train an adapter with Megatron-Bridge.", main, alone=False))
