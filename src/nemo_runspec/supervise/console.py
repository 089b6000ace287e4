"""Where lines of nemotron's own go while a job runs."""

from __future__ import annotations

import sys
from typing import Protocol


class Console(Protocol):
    """Takes lines of nemotron's own."""

    def say(self, text: str) -> None:
        """Prints one line."""


class StderrConsole:
    """Lines on the error stream; a stream that is gone is not missed."""

    def say(self, text: str) -> None:
        """Prints one line."""
        if sys.stderr is None:  # closed when this process was started; print would take standard output instead
            return
        try:
            print(text, file=sys.stderr, flush=True)
        except OSError:
            return
