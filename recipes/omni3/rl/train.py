# /// script
# [tool.runspec]
# schema = "1"
# name = "omni3/rl"
# description = "Reinforcement learning of Nemotron 3 Omni on images: GRPO with a program of NeMo-RL's."
# kind = "train"
# uses = "nemo_rl/grpo"
#
# [tool.runspec.config]
# dir = "./config"
# default = "default"
#
# [tool.runspec.resources]
# nodes = 2
# gpus_per_node = 8
# ///
"""Runs the script of `nemo_rl/grpo` on this family's configuration."""

import runpy
from pathlib import Path

RECIPES = Path(__file__).resolve().parents[2]

runpy.run_path(str(RECIPES / "nemo_rl/grpo" / "grpo.py"), run_name="__main__")
