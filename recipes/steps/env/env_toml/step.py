# /// script
# [tool.runspec]
# schema = "1"
# name = "steps/env/env_toml"
# description = "Write an env file with a profile for every step, for one kind of machine."
# kind = "tool"
# tags = ["env", "profiles"]
#
# [tool.runspec.run]
# launch = "direct"
# python = "nemotron"
#
# [tool.runspec.config]
# dir = "./config"
# default = "local"
#
# [tool.runspec.resources]
# nodes = 1
# gpus_per_node = 0
#
# [[tool.runspec.produces]]
# name = "file"
# type = "env_toml"
# description = "The env file, beside pyproject.toml; point NEMOTRON_ENV_FILE at it."
#
# [[tool.runspec.parameters]]
# name = "output"
# type = "str"
# description = "The env file's name or path; beside pyproject.toml unless it is absolute."
#
# [[tool.runspec.parameters]]
# name = "force"
# type = "bool"
# description = "Replace the file that is there; a copy of it is kept."
#
# [[tool.runspec.parameters]]
# name = "sections"
# type = "table"
# description = "The sections of the file, key by key: sections.slurm_base.account=me fills one in."
# ///
"""Writes the env file that its configuration is the template of; nemotron's own Python runs it, where it is called."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from nemo_runspec.errors import UserError
from nemotron.cli.setup.template import write_template


def main() -> int:
    """The exit code: 2 where nothing was written, or where what was written is wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    try:
        return write_template(parser.parse_args().config)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
