# /// script
# [tool.runspec]
# schema = "1"
# name = "super3/data/prep/pretrain"
# description = "Turn text into the dataset that pretraining Nemotron 3 Super reads."
# kind = "data"
# uses = "nano3/data/prep/pretrain"
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
# ///
"""Runs the script of `nano3/data/prep/pretrain` on this family's configuration."""

import runpy
from pathlib import Path

RECIPES = Path(__file__).resolve().parents[4]

runpy.run_path(str(RECIPES / "nano3/data/prep/pretrain" / "data_prep.py"), run_name="__main__")
