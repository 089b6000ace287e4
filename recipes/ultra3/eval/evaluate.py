# /// script
# [tool.runspec]
# schema = "1"
# name = "ultra3/eval"
# description = "Measure Nemotron 3 Ultra on benchmarks through NeMo Evaluator's launcher."
# kind = "eval"
# uses = "steps/eval/model_eval"
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
# name = "results"
# type = "eval_results"
# description = "results.json with the scores of every task."
# ///
"""Runs the script of `steps/eval/model_eval` on this family's configuration."""

import runpy
from pathlib import Path

RECIPES = Path(__file__).resolve().parents[2]

runpy.run_path(str(RECIPES / "steps/eval/model_eval" / "step.py"), run_name="__main__")
