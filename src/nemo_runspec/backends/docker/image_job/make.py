# /// script
# [tool.runspec]
# schema = "1"
# name = "docker/build"
# description = "Build the image of a recipe with this machine's Docker engine, and push it."
#
# [tool.runspec.run]
# launch = "direct"
# python = "nemotron"
#
# [tool.runspec.config]
# dir = "./config"
# default = "default"
#
# [tool.runspec.resources]
# nodes = 1
# gpus_per_node = 0
# ///
"""Builds and pushes the image that its configuration names; nemotron's own Python runs it, as a job of this machine."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from nemo_runspec.backends.docker.image import make_image, read_request
from nemo_runspec.errors import UserError


def main() -> int:
    """The exit code. The last line says what failed, and what helps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    try:
        return make_image(read_request(parser.parse_args().config))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1  # the engine or a registry: there is a job, and it has failed


if __name__ == "__main__":
    sys.exit(main())
