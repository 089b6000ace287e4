"""Stand-ins for programs that the lab does not have: strict scripts that record how they were called.

`podman` and `enroot` were written from their documentation and sources. No real one has been seen by these tests.
"""

from __future__ import annotations

from pathlib import Path

STANDINS = Path(__file__).parent
"""A folder to put first in PATH."""


def standin(name: str) -> str:
    """The text of one, to be put into a container image."""
    return (STANDINS / name).read_text(encoding="utf-8")
