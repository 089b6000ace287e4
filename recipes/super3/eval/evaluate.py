# /// script
# [tool.runspec]
# schema = "1"
# name = "super3/eval"
# description = "Measure Nemotron 3 Super on benchmarks through NeMo Evaluator's launcher."
# kind = "eval"
# uses = "steps/eval/model_eval"
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
# name = "model"
# type = "checkpoint_hf"
# description = "The checkpoint, as convert/megatron_to_hf exports it."
# required = true
#
# [[tool.runspec.produces]]
# name = "results"
# type = "eval_results"
# description = "results.json with the scores of every task."
# ///
"""Runs the script of `steps/eval/model_eval` on this family's configuration."""

import runpy
from pathlib import Path

RECIPES = Path(__file__).resolve().parents[2]

runpy.run_path(str(RECIPES / "steps/eval/model_eval" / "step.py"), run_name="__main__")
