# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "matplotlib==3.11.2",
#   "pyyaml==6.0.3",
# ]
#
# [tool.runspec]
# schema = "1"
# name = "nano3/report"
# description = "Lay the results of the chain's models side by side: a table and a figure."
# kind = "eval"
# download = "about 30 MB"
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
# name = "pretrain"
# type = "eval_results"
# description = "Results of the pretrained model, of nano3/eval."
# required = false
#
# [[tool.runspec.consumes]]
# name = "sft"
# type = "eval_results"
# description = "Results of the fine-tuned model."
# required = false
#
# [[tool.runspec.consumes]]
# name = "rl"
# type = "eval_results"
# description = "Results of the model after reinforcement learning."
# required = false
#
# [[tool.runspec.consumes]]
# name = "pretrain_model"
# type = "model"
# description = "The pretrained model: its metrics.jsonl tells how long it took."
# required = false
#
# [[tool.runspec.consumes]]
# name = "sft_model"
# type = "model"
# description = "The fine-tuned model, for the same."
# required = false
#
# [[tool.runspec.consumes]]
# name = "rl_model"
# type = "model"
# description = "The model after reinforcement learning, for the same."
# required = false
#
# [[tool.runspec.produces]]
# name = "report"
# type = "eval_results"
# description = "results.json with the scores of every stage, report.txt and chain.png."
#
# [[tool.runspec.parameters]]
# name = "stages"
# description = "The stages in their order: name, results, model; one whose results are null is left out."
# type = "list"
# ///
"""Lays the results of models side by side, in the order in which they were made: a table, a figure, and all scores."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "_shared"))

from nano3.settings import build, start


def main(config: dict[str, Any]) -> None:
    """Write the report."""
    from nano3.chain import ReportSettings, write_report

    write_report(build(ReportSettings, config))


if __name__ == "__main__":
    sys.exit(start("Lay the results of a chain's models side by side.", main))
