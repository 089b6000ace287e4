"""Shows a sweep while it runs: one display of the running members on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

from nemo_runspec.console import is_quiet, note
from nemo_runspec.source import display_path
from nemo_runspec.supervise.progress import MetricsTail, describe
from nemo_runspec.sweeps.console import SweepView
from nemo_runspec.sweeps.model import PIPELINE, Member, Sweep
from nemo_runspec.sweeps.table import PREFERRED, label, short_names
from nemo_runspec.text import clean, count
from nemo_runspec.visible import unfiltered
from nemotron.cli.text import paint

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

COLOURS = {"succeeded": "green", "failed": "red", "cancelled": "yellow", "running": "cyan", "lost": "red"}
_BAR = 18
_ABOVE_AND_BELOW = 4
"""Lines of a terminal that are kept free of members."""


def make_display(sweep: Sweep, keys: Sequence[str], total: int | None) -> SweepDisplay:
    """A display for standard error.

    Args:
        keys: the overrides that differ.
        total: how many runs there will be, None where nobody knows.
    """
    on_terminal = sys.stderr.isatty() and not is_quiet() and os.environ.get("TERM") != "dumb"
    return (LiveDisplay if on_terminal else SweepDisplay)(sweep, keys, total)


@dataclass
class _Running:
    """A member that runs, and what it has said of its progress."""

    member: Member
    tail: MetricsTail
    latest: dict[str, Any] = field(default_factory=dict)


class SweepDisplay(SweepView):
    """One line where a member starts and one where it has ended."""

    def __init__(self, sweep: Sweep, keys: Sequence[str], total: int | None) -> None:
        self.sweep = sweep
        self.total = total
        self.running: dict[int, _Running] = {}
        self.tally: dict[str, int] = {}
        self._names = short_names(keys)
        self._said: set[str] = set()

    def __enter__(self) -> SweepDisplay:
        if self.sweep.kind == PIPELINE:
            self.print(paint(f"{self.sweep.group}: {count(self.total or 0, 'step')}", "bold"))
            return self
        runs = "runs" if self.total is None else count(self.total, "run")
        parallel = self.sweep.options.max_parallel
        by = f", chosen by {self.sweep.sweeper}" if self.sweep.sweeper else ""
        self.print(paint(f"{self.sweep.group}: {runs} of {self.sweep.recipe}{by}, {parallel} at a time", "bold"))
        return self

    @property
    def ended_so_far(self) -> int:
        """How many members have ended."""
        return sum(self.tally.values())

    def started(self, member: Member) -> None:
        """A member is started now."""
        self.running[member.index] = _Running(member, MetricsTail(member.metrics_file))
        self.show_start(member)

    def said(self, member: Member, line: str) -> None:
        """Lines about the member itself are told here in fewer words; others are shown, the first time."""
        if line.startswith((" ", member.name)) or line in self._said:
            return
        self._said.add(line)
        self.print(f"{self.number(member)} {clean(line)}")

    def ended(self, member: Member) -> None:
        """A member has ended."""
        self.running.pop(member.index, None)
        self.tally[member.state] = self.tally.get(member.state, 0) + 1
        for line in self.closing_lines(member):
            self.print(line)

    def print(self, line: str) -> None:
        """Prints one line."""
        note(line)

    def show_start(self, member: Member) -> None:
        """Says that a member starts."""
        self.print(f"{self.number(member)} started    {self.label(member)}   {member.name}")

    def closing_lines(self, member: Member) -> list[str]:
        """How a member has ended."""
        state = paint(member.state.ljust(10), COLOURS.get(member.state, "dim"), sys.stderr)
        figures = _losses(member.metrics) if member.state == "succeeded" else clean(first_line(member.cause))
        took = f"{member.record.elapsed:.1f} s" if member.record and member.record.elapsed is not None else ""
        lines = ["   ".join(p for p in (f"{self.number(member)} {state} {self.label(member)}", figures, took) if p)]
        if member.state != "succeeded" and member.log.exists():
            lines.append(paint(f"   log: {display_path(member.log)}", "dim", sys.stderr))
        return lines

    def number(self, member: Member) -> str:
        """`#3`, as wide as the widest."""
        width = len(str((self.total or 10) - 1))
        return f"#{str(member.index).ljust(width)}"

    def label(self, member: Member) -> str:
        """What is different about a member; of a pipeline, which step it is."""
        return member.step or clean(label(member, self._names))


class LiveDisplay(SweepDisplay):
    """The members that run, each with a bar, and how many are left; lines about the others above them."""

    def __init__(self, sweep: Sweep, keys: Sequence[str], total: int | None, console: Console | None = None) -> None:
        super().__init__(sweep, keys, total)
        from rich.console import Console
        from rich.live import Live

        self._began = time.monotonic()
        self._drawn = 0.0
        self._console = console or Console(file=unfiltered(sys.stderr), highlight=False)
        self._live: Live = Live(
            console=self._console,
            get_renderable=self.render,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> SweepDisplay:
        super().__enter__()
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show_start(self, member: Member) -> None:
        """It shows below."""
        self.tick()

    def tick(self) -> None:
        """Reads what the members have written and draws that, up to four times a second."""
        if time.monotonic() - self._drawn < 0.25 and self.running:
            return
        self._drawn = time.monotonic()
        for running in self.running.values():
            for record in running.tail.new():
                running.latest.update(record)
        self._live.refresh()

    def print(self, line: str) -> None:
        """Prints a line above what is drawn."""
        from rich.text import Text

        self._console.print(Text.from_ansi(line), soft_wrap=True)

    def render(self) -> RenderableType:
        """What is drawn now."""
        from rich.console import Group
        from rich.table import Table

        room = max(3, self._console.height - _ABOVE_AND_BELOW)
        shown = list(self.running.values())[:room]
        grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
        grid.add_column(no_wrap=True, style="dim")
        grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        grid.add_column(no_wrap=True, width=_BAR)
        grid.add_column(no_wrap=True, justify="right")
        grid.add_column(no_wrap=True)
        for running in shown:
            grid.add_row(*self._cells(running))
        return Group(grid, self._footer(len(self.running) - len(shown)))

    def _cells(self, running: _Running) -> tuple[RenderableType, ...]:
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        latest = running.latest
        step, total = _number(latest.get("step")), _number(latest.get("total_steps"))
        name = Text(self.label(running.member))
        if step is None:
            return (self.number(running.member), name, Text("starting", style="dim"), "", "")
        of = f"{step:g}/{total:g}" if total else f"{step:g}"
        bar = ProgressBar(total, step, width=_BAR) if total else Text("")
        figures = _losses(latest).split("  ")[0]  # one: two for each do not fit beside the overrides
        return (self.number(running.member), name, bar, of, Text(figures, style="cyan"))

    def _footer(self, hidden: int) -> RenderableType:
        from rich.text import Text

        good, cancelled = self.tally.get("succeeded", 0), self.tally.get("cancelled", 0)
        ended = self.ended_so_far
        bad = ended - good - cancelled
        line = Text()
        if hidden:
            line.append(f"and {hidden} more   ", style="dim")
        line.append(f"{len(self.running)} running", style="cyan")
        line.append(f"   {good} done", style="green" if good else "dim")
        line.append(f"   {bad} failed", style="red" if bad else "dim")
        if cancelled:
            line.append(f"   {cancelled} cancelled", style="yellow")
        if self.total is not None:
            line.append(f"   {max(0, self.total - ended - len(self.running))} left", style="dim")
        line.append(f"   {_clock(time.monotonic() - self._began)}", style="dim")
        return line


def first_line(text: str) -> str:
    """The first line of a text."""
    return text.partition("\n")[0]


def _losses(metrics: Mapping[str, Any]) -> str:
    return describe({name: value for name, value in metrics.items() if name in PREFERRED})


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
