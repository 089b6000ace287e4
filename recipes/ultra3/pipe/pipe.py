# /// script
# [tool.runspec]
# schema = "1"
# name = "ultra3/pipe"
# description = "Pack your conversations, and fine-tune Nemotron 3 Ultra on them."
# kind = "pipe"
#
# [tool.runspec.config]
# dir = "./config"
# default = "default"
# ///
"""The chain is in the configuration."""
