"""`nemotron jobs logs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nemo_runspec.console import stdout_writer
from nemo_runspec.errors import UserError
from nemo_runspec.records.record import code_and_why
from nemo_runspec.text import one_line
from nemotron.cli.commands.jobs.messages import say

if TYPE_CHECKING:
    from nemo_runspec.records import JobRecord, JobStore


def call(job: str, follow: bool, tail: int | None, platform: bool) -> int:
    """Writes the log to standard output, byte for byte."""
    from nemo_runspec.records import JobStore
    from nemo_runspec.records.follow import log_of, show
    from nemo_runspec.records.settle import settled
    from nemo_runspec.sweeps.overview import find_job

    if tail is not None and tail < 0:
        raise UserError(f"--tail: {tail} is not a number of lines", remedy="0 or more")
    store = JobStore()
    record = settled(store, find_job(store, job).name)
    if platform:
        return _platform(record, follow, tail)
    if follow:
        return _follow(store, record, tail)
    if record.handle:
        from nemotron.cli.commands.jobs.remote import fetch_log

        record = fetch_log(store, record)
    try:
        show(log_of(store.folder(record.name)), stdout_writer(), tail=tail)
    except FileNotFoundError:
        say(f"{record.name}: {_no_log(record)}")
    if record.state == "lost":
        say(one_line(f"{record.name} is lost: {record.reason}; its log may go on after this"))
    return 0


def _platform(record: JobRecord, follow: bool, tail: int | None) -> int:
    if not record.handle:
        raise UserError(f"job '{record.name}' runs on this machine: no platform writes about it")
    if follow or tail is not None:
        raise UserError("--platform shows the whole of it, as it is now", remedy="leave -f and --tail out")
    from nemotron.cli.commands.jobs.remote import platform_log

    platform_log(record, stdout_writer())
    return 0


def _follow(store: JobStore, record: JobRecord, tail: int | None) -> int:
    try:
        ended, found = _to_its_end(store, record, tail)
    except KeyboardInterrupt:
        from nemo_runspec.records.settle import settled

        goes_on = "" if settled(store, record.name).over else "; the job goes on"
        say(f"{record.name}: no longer followed{goes_on}")
        return 130
    if not found:
        say(f"{ended.name}: {_no_log(ended)}")
    for line in _closing(ended):
        say(line)
    return 0


def _closing(record: JobRecord) -> list[str]:
    """How it ended; of a job of another machine with the diagnosis."""
    if record.handle:
        from nemo_runspec.remote.display import closing_lines

        return closing_lines(record)
    return [one_line(f"{record.name}: {record.state}{code_and_why(record.exit_code, record.reason or record.cause)}")]


def _to_its_end(store: JobStore, record: JobRecord, tail: int | None) -> tuple[JobRecord, bool]:
    """Writes the log until the job is over: its record then, and whether there was a log."""
    from nemo_runspec.records.follow import follow, log_of
    from nemo_runspec.records.log_view import make_view

    log = log_of(store.folder(record.name))
    if record.handle:
        from nemotron.cli.commands.jobs.remote import follow_log

        return follow_log(store, record, make_view(), tail), log.exists()
    watch = _Watch(store, record)
    if not record.over and not log.exists():
        say(f"{record.name} is {record.state}; its log will be shown once there is one")
    found = follow(log, make_view(), watch.is_over, tail=tail)
    return watch.record, found


class _Watch:
    """The job while its log is followed."""

    def __init__(self, store: JobStore, record: JobRecord) -> None:
        self._store = store
        self.record = record
        self._warned = False

    def is_over(self) -> bool:
        """True once nothing more will be written."""
        from nemo_runspec.records.settle import settled

        if not self.record.over:
            self.record = settled(self._store, self.record.name)
        if not self.record.over and not self._warned:
            self._warn()
        return self.record.over

    def _warn(self) -> None:
        """Says once why nothing may come for a long time."""
        from nemo_runspec.records.refresh import is_believed

        record = self.record
        if record.state == "unknown":
            self._warned = True
            say(f"{record.name}: its state is not known: {record.reason}; Ctrl-C stops following")
        elif not is_believed(record):
            self._warned = True
            say(one_line(f"{record.name}: {record.reason}"))


def _no_log(record: JobRecord) -> str:
    return "it left no log" if record.over else f"it is {record.state} and has no log yet"
