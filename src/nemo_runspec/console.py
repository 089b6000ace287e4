"""Interfaces for what a person is told while something runs: one that says nothing, and the one of a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from nemo_runspec.visible import unfiltered

Say = Callable[[str], object]
"""Takes a line for a person."""

ERASE = "\r\x1b[K"
_quiet = False
_below: Callable[[], None] | None = None


def be_quiet(wanted: bool) -> None:
    """Whether people are told results and errors only."""
    global _quiet
    _quiet = wanted


def is_quiet() -> bool:
    """True if nobody wants to hear how it goes: neither lines nor bars are shown then."""
    return _quiet


def keep_below(draw: Callable[[], None] | None) -> bool:
    """Keeps a line that lives (`spinner`) below all that is told on this terminal; whether it is the only one.

    Args:
        draw: draws it anew; None where there is none any more, and it is taken away.
    """
    global _below
    if draw is not None and _below is not None:
        return False
    _below = draw
    if draw is None:
        note("", end="")
    return True


def note(text: str, end: str = "\n") -> None:
    """Prints a line for a person on the error stream, which may be gone; not while it is quiet.

    Args:
        end: what comes behind it.
    """
    if _quiet or sys.stderr is None:  # closed when this process was started; print would take standard output instead
        return
    try:
        if _below is not None or not end:
            print(ERASE, end="", file=unfiltered(sys.stderr), flush=True)
        print(text, end=end, file=sys.stderr, flush=True)
        if _below is not None:
            _below()
    except OSError:
        return


class Console:
    """Takes what nemotron has to say. This one says nothing; a subclass overrides what it wants to hear."""

    def say(self, text: str) -> None:
        """A line for a person: progress, a warning, how to go on."""

    def answer(self, text: str) -> None:
        """A line for a script: the name of what was started, and nothing else."""

    def started(self, name: str) -> None:
        """The name of a job that has been submitted and that this process stays with."""

    def hide(self, secrets: Iterable[str]) -> None:
        """Secrets that this process's command line may show to others."""


class TerminalConsole(Console):
    """Lines for a person on the error stream, which may be gone; lines for a script on standard output."""

    def say(self, text: str) -> None:
        """Prints one line, unless it is quiet."""
        note(text)

    def answer(self, text: str) -> None:
        """Prints one line."""
        print(text)


def stdout_writer() -> Callable[[bytes], object]:
    """Takes bytes to standard output at once; as text where that is not a stream of bytes."""
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:
        return lambda data: sys.stdout.write(data.decode("utf-8", "replace"))

    def write(data: bytes) -> None:
        stream.write(data)
        stream.flush()

    return write
