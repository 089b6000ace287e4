"""Who is told what happens while something is submitted from Python: nobody, or a function of the user's."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from nemo_runspec.console import Say
from nemo_runspec.paths import working_directory
from nemo_runspec.sweeps.console import SweepCaller, SweepConsole


class Listener(SweepConsole):
    """Gives lines to a function.

    Args:
        say: None for nobody.
    """

    def __init__(self, say: Say | None = None) -> None:
        self._say = say

    def say(self, text: str) -> None:
        """Passes a line on. A function that fails is told nothing more, and warned of: the job it is about runs."""
        if self._say is None:
            return
        try:
            self._say(text)
        except Exception as error:  # noqa: BLE001 - a function of the user's raises what it likes
            self._say = None
            warnings.warn(f"say failed, and is told nothing more: {error!r}", RuntimeWarning, stacklevel=2)


def caller(argv: Sequence[str], say: Say | None) -> SweepCaller:
    """Whoever calls from Python.

    Args:
        argv: the command that does the same, which records show.

    Raises:
        UserError: the working directory is gone.
    """
    working_directory()
    return SweepCaller(tuple(argv), Listener(say))
