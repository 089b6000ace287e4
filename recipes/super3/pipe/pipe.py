# /// script
# [tool.runspec]
# schema = "1"
# name = "super3/pipe"
# description = "Fine-tune Nemotron 3 Super on your conversations, export it and measure it."
# kind = "pipe"
#
# [tool.runspec.config]
# dir = "./config"
# default = "default"
# ///
"""The chain is in the configuration."""
