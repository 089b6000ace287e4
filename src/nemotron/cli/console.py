"""The console of the command line: lines on a terminal while something runs."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from nemo_runspec.console import TerminalConsole
from nemo_runspec.processes import hide_command_line
from nemo_runspec.runner.client import Caller


class CommandConsole(TerminalConsole):
    """This process's streams, and its command line."""

    def hide(self, secrets: Iterable[str]) -> None:
        """The list of processes shows the command line without them from now on."""
        hide_command_line(sys.argv, secrets)


def caller() -> Caller:
    """Whoever typed this command."""
    return Caller(sys.argv, CommandConsole(), attached=True)
