# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "jinja2==3.1.6",
#   "nemo-evaluator-launcher==0.2.6",
#   "numpy==2.4.6",
#   "pyyaml==6.0.3",
#   "safetensors==0.8.0",
#   "tokenizers==0.23.3",
#   "torch==2.13.0",
#   "transformers==5.23.0",
# ]
#
# [tool.runspec]
# schema = "1"
# name = "nano3/eval"
# description = "Measure a nano3 model: on benchmarks with NeMo Evaluator, or tiny on questions with one answer."
# kind = "eval"
# download = "about 400 MB with the CPU build of torch; several GB with the CUDA build"
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
# type = "model"
# description = "What nano3/pretrain, nano3/sft or nano3/rl wrote."
# required = false
#
# [[tool.runspec.consumes]]
# name = "text"
# type = "pretrain_blend"
# description = "Prepared pretraining text: the perplexity of its validation split is measured."
# required = false
#
# [[tool.runspec.produces]]
# name = "results"
# type = "eval_results"
# description = "results.json with the scores and their standard errors."
#
# [[tool.runspec.parameters]]
# name = "earlier"
# description = "Folders of earlier results by the names of their stages, to be shown beside these."
#
# [[tool.runspec.parameters]]
# name = "max_new_tokens"
# description = "How long an answer may become."
# ///
"""Measures a nano3 model: a configuration with `launcher` goes to NeMo Evaluator's launcher, one without it measures a
tiny model in this process. Only the chosen one is imported.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "_shared"))

from nano3.settings import build, loading, start


def main(config: dict[str, Any]) -> int:
    """Measure; the exit status."""
    if "launcher" in config:
        from nano3.launcher import LauncherSettings, evaluate

        return evaluate(build(LauncherSettings, config))
    return _measure(config)


def _measure(config: dict[str, Any]) -> int:
    with loading():
        from nano3.tiny.measure import EvalSettings, measure
    here = Path(__file__).resolve().parent
    questions = str(config.get("questions", "")).replace("recipe://", f"{here}/", 1)
    return measure(build(EvalSettings, {**config, "questions": questions}))


if __name__ == "__main__":
    sys.exit(start("Measure a nano3 model.", main))
