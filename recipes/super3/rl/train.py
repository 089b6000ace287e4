# /// script
# [tool.runspec]
# schema = "1"
# name = "super3/rl"
# description = "Reinforcement learning of Nemotron 3 Super on rewards that can be verified: GRPO with NeMo-RL."
# kind = "train"
# uses = "steps/rl/nemo_rl/rlvr"
#
# [tool.runspec.config]
# dir = "./config"
# default = "default"
#
# [tool.runspec.resources]
# nodes = 16
# gpus_per_node = 8
#
# [[tool.runspec.consumes]]
# name = "data"
# type = "training_jsonl"
# description = "What super3/data/prep/rl wrote."
# required = true
# recipe = "super3/data/prep/rl"
#
# [[tool.runspec.consumes]]
# name = "base"
# type = "checkpoint_megatron"
# description = "The policy to begin with, of super3/sft."
# required = true
# recipe = "super3/sft"
#
# [[tool.runspec.produces]]
# name = "model"
# type = "checkpoint_megatron"
# description = "The policy after the last step: iter_<step>/ and what names it as the latest."
# ///
"""Runs the script of `steps/rl/nemo_rl/rlvr` on this family's configuration."""

import runpy
from pathlib import Path

RECIPES = Path(__file__).resolve().parents[2]

runpy.run_path(str(RECIPES / "steps/rl/nemo_rl/rlvr" / "step.py"), run_name="__main__")
