"""A job as an object."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nemo_runspec.api.listener import Listener, Say, caller
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.errors import UserError
from nemo_runspec.html import facts_table
from nemo_runspec.processes import user_name
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.follow import log_of, pieces, show
from nemo_runspec.records.lost import refresh_lost
from nemo_runspec.records.settle import settled
from nemo_runspec.remote.refresh import refresh
from nemo_runspec.remote.wait import exit_code_of, wait_for
from nemo_runspec.runner.cancel import cancel_all, with_makers
from nemo_runspec.sweeps.overview import find_job
from nemo_runspec.sweeps.status import Status

GRACE = 10.0
"""Seconds between asking a job to end and ending it."""


class Job:
    """One job, on this machine or elsewhere, found again by its name from any process.

    Each method asks anew. One that asks a platform raises `nemo_runspec.errors.UserError` where that does not answer;
    `error.transient` is true then.

    Attributes:
        name: the job's name, as `nemotron jobs` knows it.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def wait(self, timeout: float | None = None, *, say: Say | None = None) -> int:
        """Waits until the job is over; its exit code, 0 for success. A job that failed raises nothing.

        Args:
            timeout: seconds; None for as long as it takes.
            say: takes what keeps its platform from answering; it is asked again.

        Raises:
            TimeoutError: the time is up, and the job goes on.
            UserError: the job was removed, or its platform refuses to be asked.
        """
        [record] = wait_for(JobStore(), [self.name], seconds=timeout, trouble=Listener(say).say)
        if not record.over:
            raise TimeoutError(f"job '{self.name}' is {record.state} after {timeout} seconds")
        return exit_code_of(record)

    def status(self) -> Status:
        """How the job is now: `state`, `reason`, `exit_code` (None while it goes on), `over`.

        Raises:
            UserError: there is no such job, or its platform cannot be asked.
        """
        record = self._now()
        return Status(record.state, record.reason or record.cause, exit_code_of(record) if record.over else None)

    def logs(self, *, follow: bool = False, tail: int | None = None) -> Iterator[str]:
        """The lines of the job's log, without their ends; nothing where there is none yet.

        Args:
            follow: go on until the job is over.
            tail: begin with that many lines of what there is now.

        Raises:
            UserError: there is no such job, or its platform cannot be asked.
        """
        chunks = self._followed(tail) if follow else self._fetched(tail)
        yield from _lines(chunks)

    def metrics(self) -> dict[str, float]:
        """The last value of each metric that the job has written; while it runs, of those that are here already.

        Raises:
            UserError: there is no such job.
        """
        from nemo_runspec.records.metrics import last_metrics, metrics_file
        from nemo_runspec.sweeps.array_follow import fetch_metrics

        store = JobStore()
        record = settled(store, self.name)
        if record.ended and record.metrics:
            return dict(record.metrics)
        fetch_metrics(store, [record])
        return last_metrics(metrics_file(store.folder(self.name)))

    def cancel(self, *, grace: float = GRACE, say: Say | None = None) -> Status:
        """Ends the job, as `nemotron jobs cancel` does, and what only makes inputs for it. One that is over stays so.

        Args:
            grace: seconds it has to save its work before it is ended.
            say: takes what happens on the way.

        Returns: its status afterwards.

        Raises:
            UserError: it cannot be ended.
        """
        from nemo_runspec.remote.deletion import after_deletion, delete_ended

        store, tell = JobStore(), Listener(say).say
        records = with_makers(store, [settled(store, self.name)], tell)
        done = cancel_all(store, records, grace, f"nemo_runspec ({user_name()})", tell)
        for result in done:
            if isinstance(result, UserError):
                raise result
        ended = [result for result in done if isinstance(result, JobRecord)]
        after_deletion(store, ended, delete_ended(store, ended, tell)[0])
        return self.status()

    def retry(self, *, say: Say | None = None) -> Job:
        """Submits the job once more under a new name: its stored plan, its stored files. The new job.

        Raises:
            UserError: it is not over, or what it needs is gone.
        """
        from nemo_runspec.runner.retry import retry_detached

        record = self._now()
        return Job(retry_detached(record, caller(record.argv, say)))

    def diagnose(self) -> Diagnosis | None:
        """Why the job has failed, or does not start: `kind`, `what`, `evidence`, `remedy`. None where nothing is known.

        Raises:
            UserError: there is no such job, or its platform cannot be asked.
        """
        from nemo_runspec.remote.explain import explain

        store = JobStore()
        record, status = refresh(store, [settled(store, self.name)])[0]
        found = explain(store, record, status)
        if not any(found.values()):
            return None
        kind, what, evidence, remedy = (str(found.get(key) or "") for key in ("kind", "what", "evidence", "remedy"))
        platform, nodes = dict(found.get("platform") or {}), list(found.get("nodes") or ())
        return Diagnosis(kind, what, evidence, remedy, platform, nodes)

    @property
    def record(self) -> JobRecord:
        """What is written down of the job; no platform is asked.

        Raises:
            UserError: there is no such job, or its record cannot be read.
        """
        return JobStore().by_name(self.name)

    @property
    def folder(self) -> Path:
        """The job's folder on this machine: its record, plan, scripts and logs."""
        return JobStore().folder(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<Job {self.name}: {', '.join(text for _, text in self._facts())}>"

    def _repr_html_(self) -> str:
        return facts_table(self.name, self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        try:
            record = self.record
        except UserError as error:
            return [("state", error.what)]
        code = "" if record.exit_code is None else f", exit code {record.exit_code}"
        where = f"{record.profile} ({record.executor})" if record.profile else record.executor
        facts = [("state", f"{record.state}{code}"), ("recipe", record.recipe), ("where", where)]
        return facts + ([("cause", record.cause)] if record.cause else [])

    def _now(self) -> JobRecord:
        """The record as it is now; a platform is asked unless it has said how the job ended."""
        store = JobStore()
        record = settled(store, self.name)
        return refresh(store, [record], places=True)[0][0] if record.handle else refresh_lost(store, record)

    def _fetched(self, tail: int | None) -> Iterator[bytes]:
        from nemo_runspec.remote.follow import fetch_log

        store = JobStore()
        record = settled(store, self.name)
        if record.handle:
            fetch_log(store, record, Listener().say)
        chunks: list[bytes] = []
        try:
            show(log_of(store.folder(self.name)), chunks.append, tail=tail)
        except FileNotFoundError:
            return
        yield from chunks

    def _followed(self, tail: int | None) -> Iterator[bytes]:
        store = JobStore()
        record = settled(store, self.name)
        if not record.handle:
            yield from pieces(log_of(self.folder), lambda: settled(store, self.name).over, tail=tail)
            return
        from nemo_runspec.records.log_view import LogView
        from nemo_runspec.remote.follow import Follower, SilentWatcher

        chunks: list[bytes] = []
        for _ in Follower(store, record, SilentWatcher(), LogView(chunks.append), tail=tail).steps():
            yield from chunks
            chunks.clear()


def find(word: str) -> Job:
    """As `nemo_runspec.job`."""
    return Job(find_job(JobStore(), word).name)


def everything() -> list[Job]:
    """As `nemo_runspec.records`."""
    return [Job(entry.name) for entry in JobStore().entries()]


def _lines(chunks: Iterator[bytes]) -> Iterator[str]:
    left = b""
    for chunk in chunks:
        *whole, left = (left + chunk).split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in whole)
    if left:
        yield left.decode("utf-8", "replace")
