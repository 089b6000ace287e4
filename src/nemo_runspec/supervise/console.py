"""Where lines of nemotron's own go while a job runs, and where the job's own bytes go."""

from __future__ import annotations

import sys
from collections.abc import Callable
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


def stdout_writer() -> Callable[[bytes], object]:
    """Takes bytes to standard output at once; as text where that is not a stream of bytes."""
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:
        return lambda data: sys.stdout.write(data.decode("utf-8", "replace"))

    def write(data: bytes) -> None:
        stream.write(data)
        stream.flush()

    return write
