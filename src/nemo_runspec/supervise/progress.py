"""One progress bar below the log, drawn from the metrics that the recipe appends to a file."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_runspec.console import ERASE
from nemo_runspec.jobside.downsample import numbers
from nemo_runspec.regular import open_regular
from nemo_runspec.spinner import elapsed_line
from nemo_runspec.visible import unfiltered

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress

_SOON = 1.0
"""Seconds that a job may have before a line says that it runs."""
_SHOWN = (("loss", "loss {:.4f}"), ("val_loss", "val loss {:.4f}"), ("tokens_per_second", "{:,.0f} tokens/s"))


class MetricsTail:
    """Reads the JSON lines that were appended since it was asked last."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset = 0

    def new(self) -> list[dict[str, float]]:
        """The numbers of the new whole lines that have some."""
        try:
            with os.fdopen(open_regular(self._file, follow=True), "rb") as handle:
                handle.seek(self._offset)
                data = handle.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [record for record in map(numbers, whole.splitlines()) if record]


class MetricsBar:
    """The bar. Before the first record with a step a line says how long the job runs, and `rich` is not imported.

    Args:
        make_room: takes away what else is drawn in the bar's place.

    Attributes:
        is_drawn: True from then on until it is closed; lines must go through `print` meanwhile.
    """

    def __init__(self, metrics: Path, make_room: Callable[[], object] = lambda: None) -> None:
        self._tail = MetricsTail(metrics)
        self._make_room = make_room
        self._latest: dict[str, float] = {}
        self._progress: Progress | None = None
        self._began = time.monotonic()
        self._waiting = False
        self._above = ""
        self._lives = os.environ.get("TERM") != "dumb"
        self.is_drawn = False

    def step_aside(self) -> None:
        """Takes the line away that stands there before the bar does: something else is printed."""
        if self._waiting:
            self._waiting = False
            _print(ERASE)

    def give_way(self) -> None:
        """Leaves the bar as it is for now: somebody is asked something. It is drawn anew with the next record."""
        self.step_aside()
        self._stop()

    def update(self, above: str = "") -> None:
        """Reads what is new and draws it.

        Args:
            above: a bar of the job's own, which is shown too.
        """
        self._above = above
        records = self._tail.new()
        for record in records:
            self._latest.update(record)
        if not records or "step" not in self._latest:
            self._wait()
            return
        if self._progress is None:
            self.step_aside()
            self._make_room()
            self._progress = self._start()
            self.is_drawn = True
        task = self._progress.task_ids[0]
        self._progress.update(
            task,
            completed=self._latest["step"],
            total=self._latest.get("total_steps"),
            text=describe(self._latest),
        )

    def print(self, line: str) -> None:
        """Prints a line above the bar."""
        from rich.text import Text

        if self._progress is not None:
            self._progress.console.print(Text.from_ansi(line), soft_wrap=True, highlight=False)

    def close(self) -> None:
        """Draws the last state and leaves it there."""
        self._lives = False
        self.update()
        self.step_aside()
        self._stop()

    def _stop(self) -> None:
        if self._progress is not None and self.is_drawn:
            self.is_drawn = False
            self._progress.stop()
            self._progress = None

    def _wait(self) -> None:
        """The line of a job that has told no step yet."""
        seconds = time.monotonic() - self._began
        if self._lives and self._progress is None and not self._above and seconds >= _SOON:
            self._waiting = True
            _print(f"{ERASE}{elapsed_line('running', seconds)}")

    def _start(self) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.text import Text

        def above() -> str:
            return self._above

        class WithAnother(Progress):
            """The bar below the job's own."""

            def get_renderables(self) -> Iterable[RenderableType]:
                if above():
                    yield Text(above(), no_wrap=True, overflow="crop")
                yield from super().get_renderables()

        progress = WithAnother(
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[text]}", markup=False),
            TimeElapsedColumn(),
            console=Console(file=unfiltered(sys.stdout), highlight=False),
            redirect_stdout=False,
            redirect_stderr=False,
        )
        progress.add_task("", total=None, text="")
        progress.start()
        return progress


def _print(text: str) -> None:
    print(text, end="", file=unfiltered(sys.stdout), flush=True)


def describe(record: Mapping[str, float]) -> str:
    """The record's numbers in words."""
    return "  ".join(form.format(record[key]) for key, form in _SHOWN if key in record)
