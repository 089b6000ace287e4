"""Sweeps on the terminal: shown while they run, compared at their end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from nemo_runspec.remote.prompt import Choice, ask
from nemo_runspec.sweeps.console import SweepCaller, SweepConsole, SweepView
from nemo_runspec.sweeps.model import Sweep
from nemo_runspec.sweeps.table import Table
from nemotron.cli.console import CommandConsole
from nemotron.cli.sweep_display import make_display
from nemotron.cli.sweep_report import print_files, print_results


class CommandSweepConsole(CommandConsole, SweepConsole):
    """This process's streams."""

    def display(self, sweep: Sweep, keys: Sequence[str], total: int | None) -> SweepView:
        """Lines, or on a terminal a picture that moves."""
        return make_display(sweep, keys, total)

    def show_results(self, sweep: Sweep, table: Table) -> None:
        """The table, on standard output."""
        print_results(sweep, table)

    def show_files(self, sweep: Sweep, table: Table, folder: Path) -> None:
        """Where the table and the picture are."""
        print_files(sweep, table, folder)

    def ask(self, group: str) -> Choice:
        """Asks on the terminal."""
        return ask(group)


def sweep_caller() -> SweepCaller:
    """Whoever typed this command."""
    return SweepCaller(sys.argv, CommandSweepConsole(), attached=True)
