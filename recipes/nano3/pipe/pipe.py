# /// script
# [tool.runspec]
# schema = "1"
# name = "nano3/pipe"
# description = "The whole chain: data, pretraining, fine-tuning, reinforcement learning, and what each adds."
# kind = "pipe"
#
# [tool.runspec.config]
# dir = "./config"
# default = "default"
# ///
"""Has the header alone: its configurations are pipelines of the family's recipes, which nemotron runs."""
