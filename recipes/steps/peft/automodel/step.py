# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "nemo-automodel==0.7.0",
#   "pyyaml==6.0.3",
#   "torch==2.13.0",
# ]
#
# [tool.uv]
# # nemo-automodel 0.7.0 cannot be imported beside triton 3.9.
# override-dependencies = ["triton ; sys_platform == 'never'"]
#
# [tool.runspec]
# schema = "1"
# name = "steps/peft/automodel"
# description = "Train a LoRA adapter for a model of the Hugging Face hub on conversations, with NeMo AutoModel."
# kind = "train"
# tags = ["peft", "lora", "automodel"]
# image = "nvcr.io/nvidia/nemo-automodel:26.06"
# download = "about 1.5 GB with the CPU build of torch; several GB with the CUDA build"
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
# gpus_per_node = 2
#
# [[tool.runspec.consumes]]
# name = "data"
# type = "training_jsonl"
# description = "Conversations: messages with role and content."
#
# [[tool.runspec.consumes]]
# name = "base"
# type = "checkpoint_hf"
# description = "The model to begin with, instead of the one that base.name names."
# required = false
#
# [[tool.runspec.produces]]
# name = "adapter"
# type = "checkpoint_lora"
# description = "adapter_config.json and adapter_model.safetensors, as peft loads them."
#
# [[tool.runspec.parameters]]
# name = "base.name"
# description = "The model that the adapter is for: a name of the Hugging Face hub."
# type = "str"
#
# [[tool.runspec.parameters]]
# name = "peft.dim"
# description = "The adapter's rank."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "peft.alpha"
# description = "The adapter's scale is alpha / dim."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "step_scheduler.max_steps"
# description = "How many optimizer steps at most."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "step_scheduler.global_batch_size"
# description = "Sequences per optimizer step, over all processes."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "optimizer.lr"
# description = "The highest learning rate."
# type = "float"
# min = 0
#
# [[tool.runspec.models]]
# name = "Qwen/Qwen3-8B"
# description = "8 billion parameters in bfloat16, of which only the adapter learns."
# parameter = "base.name"
# min_gpus = 1
#
# [[tool.runspec.errors]]
# pattern = "Each sample must contain a .messages. list"
# cause = "A row has no conversation."
# remedy = "give rows with messages of role and content; data_prep/rl_prep with form=chat writes such"
#
# [[tool.runspec.errors]]
# pattern = "requires a tokenizer with chat template"
# cause = "The model's tokenizer has no chat template: it was not made for conversations."
# remedy = "base.name=… of a model that was; such as one whose name ends with Instruct"
#
# [[tool.runspec.errors]]
# pattern = "CUDA out of memory"
# cause = "The model, its optimizer and a batch do not fit in the GPU's memory."
# remedy = "smaller step_scheduler.local_batch_size or dataset.seq_length; or more GPUs"
# ///
"""Trains a LoRA adapter with NeMo AutoModel's own recipe; the sections of the configuration are AutoModel's."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "_shared"))

from nemo_steps import automodel, files, models, runner
from nemo_steps.config import Config, need


def main(config: Config) -> None:
    """Train on the rows of `data`, beginning with the model that `base` names."""
    rows = [str(file) for file in files.row_files(need(config, "data", str))]
    need(config, "dataset", dict)["path_or_dataset_id"] = rows
    need(config, "model", dict)["pretrained_model_name_or_path"] = models.base(config)
    automodel.train(config, automodel.ADAPTER)


if __name__ == "__main__":
    sys.exit(runner.start("Train a LoRA adapter on conversations.", main, alone=False))
