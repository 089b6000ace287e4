# /// script
# [tool.runspec]
# schema = "1"
# name = "super3/data/prep/rl"
# description = "Turn conversations into prompts with answers that a reward can be computed from."
# kind = "data"
# uses = "steps/data_prep/rl_prep"
#
# [tool.runspec.config]
# dir = "./config"
# default = "default"
#
# [tool.runspec.resources]
# nodes = 1
# gpus_per_node = 0
#
# [[tool.runspec.consumes]]
# name = "data"
# type = "training_jsonl"
# description = "Conversations, or prompts with answers."
#
# [[tool.runspec.produces]]
# name = "prompts"
# type = "training_jsonl"
# description = "train.jsonl, valid.jsonl and manifest.json, as NeMo-RL reads them."
# ///
"""Runs the script of `steps/data_prep/rl_prep` on this family's configuration."""

import runpy
from pathlib import Path

RECIPES = Path(__file__).resolve().parents[4]

runpy.run_path(str(RECIPES / "steps/data_prep/rl_prep" / "step.py"), run_name="__main__")
