# /// script
# [tool.runspec]
# schema = "1"
# name = "super3/data/prep/sft"
# description = "Tokenize conversations and pack them for fine-tuning Nemotron 3 Super."
# kind = "data"
# uses = "steps/data_prep/sft_packing"
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
# description = "Conversations: messages with role and content."
#
# [[tool.runspec.produces]]
# name = "packed"
# type = "packed_parquet"
# description = "train.parquet, valid.parquet, tokenizer/ and manifest.json."
# ///
"""Runs the script of `steps/data_prep/sft_packing` on this family's configuration."""

import runpy
from pathlib import Path

RECIPES = Path(__file__).resolve().parents[4]

runpy.run_path(str(RECIPES / "steps/data_prep/sft_packing" / "step.py"), run_name="__main__")
