"""The interface for what a person is told of a sweep; this one says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from nemo_runspec.console import Console
from nemo_runspec.remote.prompt import Choice
from nemo_runspec.runner.client import Caller
from nemo_runspec.sweeps.model import Member, Sweep
from nemo_runspec.sweeps.table import Table


class SweepView(AbstractContextManager["SweepView"]):
    """Is told how a sweep goes, always in the main thread. This one shows nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to put away."""

    def started(self, member: Member) -> None:
        """A member is started now."""

    def said(self, member: Member, line: str) -> None:
        """A line of nemotron's own about a member."""

    def ended(self, member: Member) -> None:
        """A member has ended."""

    def tick(self) -> None:
        """Called about ten times a second."""


class SweepConsole(Console):
    """A console that can show sweeps. This one says nothing, shows nothing, and lets a sweep go on when interrupted."""

    def display(self, sweep: Sweep, keys: Sequence[str], total: int | None) -> SweepView:
        """What shows the members while they run.

        Args:
            keys: the overrides that differ.
            total: how many runs there will be, None where nobody knows.
        """
        return SweepView()

    def show_results(self, sweep: Sweep, table: Table) -> None:
        """The members compared, once the sweep has ended."""

    def show_files(self, sweep: Sweep, table: Table, folder: Path) -> None:
        """Where the results are, once they are written."""

    def ask(self, group: str) -> Choice:
        """What is to become of a sweep elsewhere after Ctrl-C."""
        return Choice.DETACH


@dataclass(frozen=True)
class SweepCaller(Caller):
    """Who wants a sweep run; as `Caller`, with a console that can show it."""

    console: SweepConsole = field(default_factory=SweepConsole)
