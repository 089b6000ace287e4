"""`--json` of a submission: what was started, and how it ended, as lines of JSON; all else goes to the error stream."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from nemotron.cli.console import CommandConsole, caller

if TYPE_CHECKING:
    from nemo_runspec.records import JobRecord
    from nemo_runspec.runner.client import Caller
    from nemo_runspec.sweeps.console import SweepCaller, SweepView
    from nemo_runspec.sweeps.model import Sweep


class _Lines:
    """Takes the names of what is started, and writes a line about each to the real standard output."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.last = ""

    def submitted(self, name: str) -> None:
        """It is recorded, and on its way."""
        self.last = name
        self._write(submission_of(name))

    def ended(self, code: int) -> None:
        """This process ends with a code; nothing where it was not attached to anything."""
        if self.last:
            known = _described(self.last)
            self._write({"event": "ended" if known["over"] else "left", **known, "exit_code": code})

    def _write(self, data: dict[str, Any]) -> None:
        from nemotron.cli.forms import json_text

        print(json_text(data), file=self._stream, flush=True)


class _JobConsole(CommandConsole):
    def __init__(self, lines: _Lines) -> None:
        self.lines = lines
        self.attached = False

    def answer(self, text: str) -> None:
        """The name of what goes on by itself."""
        self.lines.submitted(text)

    def started(self, name: str) -> None:
        """The name of what this process stays with."""
        self.attached = True
        self.lines.submitted(name)


def run_job(run: Callable[[Caller], int], *, as_json: bool) -> int:
    """Calls what starts a job with whoever typed this command; the exit code.

    With `as_json` there is a line with the job once it is submitted and, where this process stays with it, one with its
    exit code at its end.
    """
    if not as_json:
        return run(caller())
    from nemo_runspec.runner.client import Caller

    return _run_with(_JobConsole, lambda console: run(Caller(sys.argv, console, attached=True)))


def run_sweep(run: Callable[[SweepCaller], int], *, as_json: bool) -> int:
    """The same for a sweep."""
    from nemotron.cli.sweep_console import sweep_caller

    if not as_json:
        return run(sweep_caller())
    from nemo_runspec.sweeps.console import SweepCaller

    return _run_with(_sweep_console, lambda console: run(SweepCaller(sys.argv, console, attached=True)))


def _run_with(make: Callable[[_Lines], Any], run: Callable[[Any], int]) -> int:
    """Runs with a console that writes lines of JSON; the exit code, told too where this process has stayed."""
    with _only_json() as lines:
        console = make(lines)
        code = run(console)
        if console.attached:
            lines.ended(code)
        return code


def _sweep_console(lines: _Lines) -> Any:
    from nemotron.cli.sweep_console import CommandSweepConsole

    class SweepLines(_JobConsole, CommandSweepConsole):
        def display(self, sweep: Sweep, keys: Sequence[str], total: int | None) -> SweepView:
            self.started(sweep.group)
            return super().display(sweep, keys, total)

    return SweepLines(lines)


def submission_of(name: str) -> dict[str, Any]:
    """What is said of a job or a sweep that has been submitted."""
    return {"event": "submitted", **_described(name)}


@contextmanager
def _only_json() -> Iterator[_Lines]:
    """Standard output is for JSON alone: what else is written there, a job's log too, goes to the error stream."""
    real, sys.stdout = sys.stdout, sys.stderr
    try:
        yield _Lines(real)
    finally:
        sys.stdout = real


def _described(name: str) -> dict[str, Any]:
    from nemo_runspec.records import JobStore

    store = JobStore()
    return _job(store.by_name(name), str(store.folder(name))) if store.exists(name) else _sweep(name)


def _job(record: JobRecord, folder: str) -> dict[str, Any]:
    known = ("name", "recipe", "config", "profile", "executor", "mode", "group", "tags", "note", "cause", "elapsed")
    results = {"outputs": dict(record.outputs), "metrics": dict(record.metrics)} if record.over else {}
    results |= {"image": dict(record.image)} if record.image else {}
    return {
        "kind": "job",
        **{key: getattr(record, key) for key in known},
        "id": record.id or None,
        "state": record.state,
        "over": record.over,
        "exit_code": record.exit_code,
        "directory": record.job_dir or folder,
        "folder": folder,
        "log": f"{folder}/logs/job.log",
        **results,
    }


def _sweep(name: str) -> dict[str, Any]:
    from nemo_runspec.sweeps.overview import Overview
    from nemotron.cli.sweep_summary import sweep_json, sweep_now

    overview = Overview()
    jobs = [entry.name for entry in overview.members(name)]
    return {**sweep_json(sweep_now(overview, name)), "folder": str(overview.sweep_store.folder(name)), "jobs": jobs}
