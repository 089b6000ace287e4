"""A job as an object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from nemo_runspec.api import given
from nemo_runspec.api.listener import Listener, caller
from nemo_runspec.console import Say
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.errors import UserError
from nemo_runspec.html import facts_table
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.cancel_request import GRACE
from nemo_runspec.records.follow import log_of, pieces, show
from nemo_runspec.records.index import Entry
from nemo_runspec.records.settle import settled
from nemo_runspec.remote.refresh import current, refresh
from nemo_runspec.remote.wait import exit_code_of, wait_for
from nemo_runspec.sweeps.cancel import Cancelled, end
from nemo_runspec.sweeps.overview import Overview, find_job
from nemo_runspec.sweeps.removal import removable, remove_all
from nemo_runspec.sweeps.status import Status
from nemo_runspec.sweeps.store import SweepStore

BY = "nemo_runspec"
"""Who has ended a job, where Python has."""


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
            UserError: the job was removed, or its platform refuses to be asked; or that is no length of time.
        """
        limit = None if timeout is None else given.seconds("timeout", timeout)
        [record] = wait_for(JobStore(), [self.name], seconds=limit, trouble=Listener(say).say)
        if not record.over:
            raise TimeoutError(f"job '{self.name}' is {record.state} after {timeout} seconds")
        return exit_code_of(record)

    def status(self) -> Status:
        """How the job is now: `state`, `reason`, `exit_code` (None while it goes on), `over`.

        Raises:
            UserError: there is no such job, or its platform cannot be asked.
        """
        record = current(JobStore(), self.name, places=True)
        return Status(record.state, record.reason or record.cause, exit_code_of(record) if record.over else None)

    def logs(self, *, follow: bool = False, tail: int | None = None) -> Iterator[str]:
        """The lines of the job's log, without their ends; nothing where there is none yet.

        Args:
            follow: go on until the job is over.
            tail: begin with that many lines of what there is now.

        Raises:
            UserError: there is no such job, or its log cannot be fetched; what had been fetched of it before is in
                `folder`, as `logs/job.log`. Or `tail` is no number of lines.
        """
        most = None if tail is None else given.lines("tail", tail)
        chunks = self._followed(most) if follow else self._fetched(most)
        return _lines(chunks)

    def metrics(self) -> dict[str, float]:
        """The last value of each metric that the job has written; while it runs, of those that are here already.

        Raises:
            UserError: there is no such job, or its platform cannot be asked.
        """
        from nemo_runspec.records.metrics import last_metrics, metrics_file
        from nemo_runspec.sweeps.array_follow import fetch_metrics

        store = JobStore()
        record = settled(store, self.name)
        if record.ended and record.metrics:
            return dict(record.metrics)
        problems: list[UserError | OSError] = []
        fetch_metrics(store, [record], problems.append)
        if problems and (record.unread or not record.ended):  # of one that has ended there were none to be read
            raise _as_user_error(problems[0])
        return last_metrics(metrics_file(store.folder(self.name)))

    def cancel(self, *, grace: float = GRACE, say: Say | None = None) -> Status:
        """Ends the job, as `nemotron jobs cancel` does, and what only makes inputs for it. One that is over stays so.

        Args:
            grace: seconds it has to save its work before it is ended.
            say: takes what happens on the way.

        Returns: its status afterwards.

        Raises:
            UserError: it cannot be ended, or what its platform keeps of it cannot be deleted.
        """
        time, tell = given.seconds("grace", grace), Listener(say).say
        raise_problem(end(JobStore(), SweepStore(), [self.name], (), grace=time, by=BY, delete=True, say=tell))
        return self.status()

    def remove(self, *, force: bool = False, say: Say | None = None) -> None:
        """Removes a job that is over, as `nemotron jobs rm` does: its folder, and what is left of it elsewhere.

        Args:
            force: also where it cannot be known or read whether it is over; what cannot be removed elsewhere is left.
            say: takes what is left.

        Raises:
            UserError: there is no such job, it goes on, or it cannot be removed.
        """
        overview = Overview()
        remove_named(overview, overview.jobs, self.name, force, say)

    def retry(self, *, say: Say | None = None) -> Job:
        """Submits the job once more under a new name: its stored plan, its stored files. The new job.

        Raises:
            UserError: it is not over, or what it needs is gone.
        """
        from nemo_runspec.runner.retry import retry_detached

        record = current(JobStore(), self.name)
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

    def _fetched(self, tail: int | None) -> Iterator[bytes]:
        from nemo_runspec.remote.follow import fetch_log

        store = JobStore()
        record = settled(store, self.name)
        if record.handle:
            fetch_log(store, record)
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
    return Job(find_job(JobStore(), given.text("name", word)).name)


def everything() -> list[Job]:
    """As `nemo_runspec.jobs`."""
    return [Job(entry.name) for entry in JobStore().entries()]


def remove_named(overview: Overview, entries: Sequence[Entry], name: str, force: bool, say: Say | None) -> None:
    """Removes the one of the jobs, or of the sweeps, that has this whole name. Raises as `Job.remove`."""
    meant = [entry for entry in entries if entry.name == name]
    if not meant:
        raise UserError(f"there is no '{name}' to be removed")
    remove_all(overview, removable(overview, meant, force=force), force=force, say=Listener(say).say)


def raise_problem(done: Cancelled) -> None:
    """Raises the first of what has kept jobs from being ended, or their platforms from deleting them."""
    for problem in (*done.problems, *done.undeleted):
        raise problem


def _as_user_error(error: UserError | OSError) -> UserError:
    if isinstance(error, UserError):
        return error
    return UserError(f"its metrics cannot be written here: {error.strerror or error}", where=error.filename)


def _lines(chunks: Iterator[bytes]) -> Iterator[str]:
    left = b""
    for chunk in chunks:
        *whole, left = (left + chunk).split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in whole)
    if left:
        yield left.decode("utf-8", "replace")
