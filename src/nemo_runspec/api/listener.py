"""Who is told what happens while something is submitted from Python: nobody, or a function of the user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nemo_runspec.paths import working_directory
from nemo_runspec.sweeps.console import SweepCaller, SweepConsole

Say = Callable[[str], object]
"""Takes a line: `print`, a logger's `info`."""


class Listener(SweepConsole):
    """Gives lines to a function.

    Args:
        say: None for nobody.
    """

    def __init__(self, say: Say | None = None) -> None:
        self._say = say

    def say(self, text: str) -> None:
        """Passes a line on."""
        if self._say is not None:
            self._say(text)


def caller(argv: Sequence[str], say: Say | None) -> SweepCaller:
    """Whoever calls from Python.

    Args:
        argv: the command that does the same, which records show.

    Raises:
        UserError: the working directory is gone.
    """
    working_directory()
    return SweepCaller(tuple(argv), Listener(say))
