"""A question before something that costs or ends much: asked in a terminal, answered by `-y` anywhere else."""

from __future__ import annotations

import sys

from nemo_runspec.errors import UserError

_YES = ("y", "yes")


def confirmed(question: str, *, yes: bool, what: str, remedy: str | None = None) -> bool:
    """True if the person wants it.

    Args:
        question: what is asked, on the error stream.
        yes: it has been answered by an option.
        what: what is said where nobody can be asked.
        remedy: what to type instead.

    Raises:
        UserError: nobody can be asked.
    """
    if yes:
        return True
    if not can_ask():
        raise UserError(what, remedy=remedy)
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    try:
        return sys.stdin.readline().strip().lower() in _YES
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return False


def can_ask() -> bool:
    """True if somebody sits at a terminal: both what is read and the error stream are one."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
