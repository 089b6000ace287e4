"""Lines of a job command's own, on the error stream."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """One line on the error stream."""
    print(text, file=sys.stderr, flush=True)
