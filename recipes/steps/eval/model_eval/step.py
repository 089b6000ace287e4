# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "accelerate==1.15.0",
#   "lm-eval[api,hf]==0.4.13",
#   "nemo-evaluator-launcher==0.2.6",
#   "pyyaml==6.0.3",
#   "torch==2.13.0",
#   "transformers==5.23.0",
# ]
#
# [tool.runspec]
# schema = "1"
# name = "steps/eval/model_eval"
# description = "Measure a model on benchmarks: a served one with NeMo Evaluator, or a checkpoint with lm-eval."
# kind = "eval"
# tags = ["eval", "lm-eval", "evaluator"]
# download = "about 900 MB with the CPU build of torch; several GB with the CUDA build"
#
# [tool.runspec.run]
# launch = "direct"
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
# name = "model"
# type = "checkpoint_hf"
# description = "The model to measure, where no endpoint is."
# required = false
#
# [[tool.runspec.consumes]]
# name = "megatron"
# type = "checkpoint_megatron"
# description = "The model to deploy and measure on a cluster."
# required = false
#
# [[tool.runspec.produces]]
# name = "results"
# type = "eval_results"
# description = "results.json with the scores of every task."
#
# [[tool.runspec.parameters]]
# name = "through"
# description = "Which evaluator: lm-eval, or NeMo Evaluator's launcher."
# choices = ["lm_eval", "launcher"]
#
# [[tool.runspec.parameters]]
# name = "tasks"
# description = "Which benchmarks."
# type = "list"
#
# [[tool.runspec.parameters]]
# name = "endpoint.url"
# description = "Where an OpenAI-compatible server answers."
# type = "str"
#
# [[tool.runspec.parameters]]
# name = "limit"
# description = "How many questions of each benchmark; all where it is null."
# type = "int"
# min = 1
#
# [[tool.runspec.errors]]
# pattern = "Connection refused|Max retries exceeded"
# cause = "No server answers at the endpoint."
# remedy = "start it, and correct endpoint.url"
#
# [[tool.runspec.errors]]
# pattern = "is not a registered task"
# cause = "lm-eval does not know a benchmark."
# remedy = "lm-eval ls tasks tells their names"
# ///
"""Measures a model on benchmarks: with lm-eval in this process, or through NeMo Evaluator's launcher, in containers."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "_shared"))

from nemo_steps import evaluation, runner
from nemo_steps.config import Config, ConfigError, need

THROUGH = {"lm_eval": evaluation.with_lm_eval, "launcher": evaluation.with_launcher}


def main(config: Config) -> None:
    """Run the benchmarks and write results.json."""
    chosen = need(config, "through", str)
    if chosen not in THROUGH:
        raise ConfigError(f"through must be one of {', '.join(THROUGH)}, not {chosen!r}")
    THROUGH[chosen](config)


if __name__ == "__main__":
    sys.exit(runner.start("Measure a model on benchmarks.", main, alone=False))
