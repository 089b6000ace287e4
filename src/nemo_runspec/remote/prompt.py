"""Ctrl-C while a job of another machine is shown: does it go on without this terminal, does it end, or nothing?"""

from __future__ import annotations

import os
import termios
from collections.abc import Mapping
from enum import Enum

_TERMINAL = "/dev/tty"
_LINE = 1024


class Choice(Enum):
    """What is to become of the job."""

    DETACH = "detach"
    CANCEL = "cancel"
    GO_ON = "go on"


_ANSWERS: Mapping[str, Choice] = {
    "": Choice.GO_ON,
    "g": Choice.GO_ON,
    "go on": Choice.GO_ON,
    "d": Choice.DETACH,
    "detach": Choice.DETACH,
    "c": Choice.CANCEL,
    "cancel": Choice.CANCEL,
}


def ask(name: str) -> Choice:
    """Asks on the terminal what is to become of a job, until the answer is one.

    Without a terminal that this process may read, with Ctrl-C once more, or at the end of input, the job goes on alone:
    ending it takes a word.

    Args:
        name: the job's.
    """
    terminal = None
    try:
        terminal = os.open(_TERMINAL, os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
        return _asked(terminal, name)
    except (KeyboardInterrupt, OSError, termios.error):
        return Choice.DETACH
    finally:
        if terminal is not None:
            os.close(terminal)


def answer_of(line: str) -> Choice | None:
    """What a typed line means, None where it means nothing. Letter case and spaces around it do not matter."""
    return _ANSWERS.get(line.strip().lower())


def _asked(terminal: int, name: str) -> Choice:
    if os.tcgetpgrp(terminal) != os.getpgrp():  # in the background, reading would stop this process
        return Choice.DETACH
    termios.tcflush(terminal, termios.TCIFLUSH)  # what was typed before it was asked is no answer
    question = f"\n{name}: detach (d), cancel (c) or go on (Enter)? "
    while True:
        os.write(terminal, question.encode())
        typed = os.read(terminal, _LINE)
        if not typed.endswith(b"\n"):  # the end of input, on a line of its own or after some letters
            os.write(terminal, b"\n")
            return Choice.DETACH
        found = answer_of(typed.decode("utf-8", "replace"))
        if found is not None:
            return found
        question = "detach (d), cancel (c) or go on (Enter)? "
