"""The bash of this backend, as text. What is sent to a login node begins with `PRELUDE`."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def program(path: str) -> str:
    """A script of this folder, such as `cluster/submit.sh`."""
    return (Path(__file__).parent / path).read_text(encoding="utf-8")


PRELUDE = program("cluster/prelude.sh")
"""What every script begins with: nothing a user's shell sets may change what is asked or how it is answered."""

SLURM_NAME = program("cluster/slurm_name.sh")
"""A function for scripts: the `ClusterName` of the configuration. Costs no question to Slurm where that can be read."""

STOPPING = program("cluster/stopping.sh")
"""Functions for the scripts that stop jobs; they come after `SLURM_NAME`."""
