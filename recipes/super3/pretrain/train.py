# /// script
# [tool.runspec]
# schema = "1"
# name = "super3/pretrain"
# description = "Pretrain Nemotron 3 Super with Megatron-Bridge."
# kind = "train"
# uses = "nano3/pretrain"
# image = "nvcr.io/nvidia/nemo:26.02.nemotron_3_super"
#
# [tool.runspec.config]
# dir = "./config"
# default = "default"
#
# [tool.runspec.resources]
# nodes = 4
# gpus_per_node = 8
#
# [[tool.runspec.consumes]]
# name = "data"
# type = "pretrain_blend"
# description = "What super3/data/prep/pretrain wrote."
# required = true
# recipe = "super3/data/prep/pretrain"
#
# [[tool.runspec.produces]]
# name = "model"
# type = "checkpoint_megatron"
# description = "Checkpoints: iter_<step>/ and what names the latest; metrics.jsonl."
# ///
"""Runs the script of `nano3/pretrain` on this family's configuration."""

import runpy
from pathlib import Path

RECIPES = Path(__file__).resolve().parents[2]

runpy.run_path(str(RECIPES / "nano3/pretrain" / "train.py"), run_name="__main__")
