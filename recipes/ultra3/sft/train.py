# /// script
# [tool.runspec]
# schema = "1"
# name = "ultra3/sft"
# description = "Fine-tune every weight of Nemotron 3 Ultra with Megatron-Bridge."
# kind = "train"
# uses = "steps/sft/megatron_bridge"
# image = "nvcr.io/nvidia/nemo:26.08"
#
# [tool.runspec.config]
# dir = "./config"
# default = "default"
#
# [tool.runspec.resources]
# nodes = 24
# gpus_per_node = 8
#
# [[tool.runspec.consumes]]
# name = "data"
# type = "packed_parquet"
# description = "What ultra3/data/prep/sft wrote."
# required = true
# recipe = "ultra3/data/prep/sft"
#
# [[tool.runspec.consumes]]
# name = "base"
# type = "checkpoint_megatron"
# description = "The checkpoint to fine-tune."
# required = true
#
# [[tool.runspec.produces]]
# name = "model"
# type = "checkpoint_megatron"
# description = "Checkpoints: iter_<step>/ and what names the latest."
# ///
"""Runs the script of `steps/sft/megatron_bridge` on this family's configuration."""

import runpy
from pathlib import Path

RECIPES = Path(__file__).resolve().parents[2]

runpy.run_path(str(RECIPES / "steps/sft/megatron_bridge" / "step.py"), run_name="__main__")
