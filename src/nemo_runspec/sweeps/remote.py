"""The runs of a sweep on another machine: those of one shape submitted together, and watched by nobody from here.

Once they are submitted the sweep has no process: its state is what its members' are.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.base import Rendering
from nemo_runspec.backends.capabilities import SubmitsArrays
from nemo_runspec.console import Say
from nemo_runspec.interrupts import WORDS, Interrupts
from nemo_runspec.planning.planned import Planned
from nemo_runspec.plans.model import Plan
from nemo_runspec.polling import Backoff
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.cancel_request import read_request
from nemo_runspec.remote.cancel import stop_all
from nemo_runspec.remote.group import RemoteGroup, array_provider, clear_together
from nemo_runspec.remote.job import RemoteJob
from nemo_runspec.remote.refresh import refresh
from nemo_runspec.remote.unconfirmed import confirmed_status, id_in
from nemo_runspec.source import Layer
from nemo_runspec.submission.request import RetriedJob, Submission
from nemo_runspec.sweeps.array_follow import fetch_metrics
from nemo_runspec.sweeps.model import Options, options_of
from nemo_runspec.transport.base import Unreachable

_SHORTEST, _LONGEST = 0.5, 15.0
"""Seconds between two looks at one run."""


@dataclass(frozen=True)
class Batch:
    """Runs that are submitted together. `members`: their places in the sweep; a single one is an ordinary job."""

    name: str
    members: tuple[int, ...]


def batches_of(group: str, plans: Sequence[Plan]) -> list[Batch]:
    """The runs of a sweep by their shapes, the first run's first.

    Args:
        group: the sweep's name, which the only array has too; several are numbered.
    """
    shapes: dict[str, list[int]] = {}
    for index, plan in enumerate(plans):
        provider = get_backend(plan.executor).load_provider()
        shape = provider.array_key(plan) if isinstance(provider, SubmitsArrays) else None
        shapes.setdefault(shape or f"alone {index}", []).append(index)
    several = sum(len(found) > 1 for found in shapes.values()) > 1
    names = (f"{group}-{number}" if several else group for number in range(1, len(shapes) + 1))
    return [Batch(plans[found[0]].name if len(found) == 1 else next(names), tuple(found)) for found in shapes.values()]


def renderings_of(group: str, plans: Sequence[Plan]) -> list[tuple[Batch, Sequence[Rendering]]]:
    """What would be sent for the runs of each array of a sweep; empty where no runs would be submitted together."""
    if not get_backend(plans[0].executor).provider:
        return []
    found = []
    options = options_of(plans[0])
    for batch in batches_of(group, plans):
        if len(batch.members) > 1:
            provider = array_provider(plans[0].executor)
            some = [plans[index] for index in batch.members]
            limit = parallel_of(plans[0])
            files = provider.renderings(batch.name, some, parallel=limit, ends_all=options.stop_on_failure)
            found.append((batch, files))
    return found


def how_it_goes(batches: Sequence[Batch]) -> str:
    """The batches in words; '' where all runs are one array."""
    arrays = [len(batch.members) for batch in batches if len(batch.members) > 1]
    alone = len(batches) - len(arrays)
    if len(arrays) == 1 and not alone:
        return ""
    if not arrays:
        return "each run is a job by itself"
    parts = [f"{len(arrays)} job arrays ({', '.join(map(str, arrays))} runs)"] if len(arrays) > 1 else []
    parts += [f"a job array of {arrays[0]} runs"] if len(arrays) == 1 else []
    parts += [f"{alone} jobs by themselves" if alone > 1 else "a job by itself"] if alone else []
    return f"the runs differ in what they ask for: {' and '.join(parts)}"


def parallel_of(plan: Plan) -> int | None:
    """How many runs may go on at a time where the profile or the command line says so; else the queue decides."""
    source = plan.sources.get("run.env.max_parallel")
    limit = plan.run["env"].get("max_parallel")
    return int(limit) if limit and source is not None and source.layer is not Layer.DEFAULT else None


def is_bounded_here(plan: Plan) -> bool:
    """True if a process of this machine has to hold how many runs go on: a limit is asked for, and their platform takes
    no runs together."""
    backend = get_backend(plan.executor)
    if not backend.remote or parallel_of(plan) is None:
        return False
    return not isinstance(backend.load_provider(), SubmitsArrays)


class RemoteSweep:
    """The runs of a grid on their way.

    Args:
        argv: the command line, which each job's record keeps redacted.
        needs: names of jobs that all runs wait for.

    Raises:
        UserError: something keeps the runs from being submitted; nothing has happened then.
    """

    def __init__(
        self,
        group: str,
        planned: Sequence[Planned],
        argv: Sequence[str],
        options: Options,
        say: Say,
        *,
        needs: Sequence[str] = (),
    ) -> None:
        plans = [each.plan for each in planned]
        self.batches = batches_of(group, plans)
        limit = parallel_of(plans[0])
        self._parts: list[RemoteGroup | RemoteJob] = []
        for batch in self.batches:
            some = [planned[index].submission(argv, group=group, needs=needs) for index in batch.members]
            get_backend(some[0].plan.executor).load_provider().check(some[0].plan)
            self._parts.append(
                RemoteJob(some[0], say)
                if len(some) == 1
                else RemoteGroup(batch.name, some, parallel=limit, ends_all=options.stop_on_failure, say=say)
            )

    def record_jobs(self) -> None:
        """Writes all runs down, before the first is submitted."""
        for part in self._parts:
            if isinstance(part, RemoteGroup):
                part.record_jobs()
            else:
                part.record_job()

    def submit(self) -> None:
        """Submits all runs.

        Raises:
            UserError: as `RemoteGroup.submit`; what was submitted before goes on.
        """
        for part in self._parts:
            part.submit()

    @property
    def records(self) -> dict[int, JobRecord]:
        """The runs' records by their places."""
        found: dict[int, JobRecord] = {}
        for batch, part in zip(self.batches, self._parts, strict=True):
            records = part.records if isinstance(part, RemoteGroup) else [part.record]
            found |= dict(zip(batch.members, records, strict=True))
        return found

    @property
    def names(self) -> list[str]:
        """The runs' jobs, in no order."""
        return [each.plan.name for part in self._parts for each in _submissions(part)]

    @property
    def ids(self) -> Mapping[str, int]:
        """What was submitted: id on the platform → how many runs it is."""
        found: dict[str, int] = {}
        for batch in self.batches:
            id = self.records[batch.members[0]].id
            found[id.partition("_")[0] if len(batch.members) > 1 else id] = len(batch.members)
        return found


def run_member(
    planned: Planned,
    *,
    argv: Sequence[str],
    group: str,
    interrupts: Interrupts,
    say: Say,
    retried: RetriedJob | None = None,
    needs: Sequence[str] = (),
) -> JobRecord:
    """Runs one plan of a sweep to its end as an ordinary job, in the calling thread: for a sweeper that waits for it.

    Args:
        retried: the job that is run once more.
        needs: names of jobs that it waits for.

    Returns: the record of the job that is over.

    Raises:
        UserError: it could not be submitted, or the platform refuses to be asked.
    """
    job = RemoteJob(planned.submission(argv, group=group, retried=retried, needs=needs), say)
    job.record_job()
    record = job.submit()
    cancels, pauses = _CancelRequests(interrupts, job.folder), Backoff(_SHORTEST, _LONGEST, growth=1.4)
    while not record.over:
        pauses.wait()
        by, hard = cancels.next()
        with suppress(Unreachable):
            if by:
                stop_all([record], by, hard=hard)
                pauses.reset()
            record = refresh(job.store, [record])[0][0]
    fetch_metrics(job.store, [record])
    return record


class _CancelRequests:
    """Requests to cancel a job: signals to this process, and one in the job's folder. Each is returned once."""

    def __init__(self, interrupts: Interrupts, folder: Path) -> None:
        self._interrupts = interrupts
        self._folder = folder
        self._heard = 0
        self._asked = False

    def next(self) -> tuple[str, bool]:
        """Returns who asked, and True where the job is not to be asked first; '' for no new request."""
        if len(self._interrupts.seen) > self._heard:
            self._heard = len(self._interrupts.seen)
            return WORDS[signal.Signals(self._interrupts.seen[-1])], self._heard > 1
        request = None if self._asked else read_request(self._folder)
        if request is None:
            return "", False
        self._asked = True
        return request.by, request.grace <= 0


def end_now(store: JobStore, names: Sequence[str], by: str) -> None:
    """Ends runs whose submission was interrupted: they are looked for first, then those that are there are ended.

    Raises:
        UserError: it cannot be known, or they cannot be ended.
    """
    records = [store.by_name(name) for name in names if store.exists(name)]
    open_ones = [record for record in records if not record.over]
    if not open_ones:
        return
    provider = get_backend(open_ones[0].executor).load_provider()
    seen = confirmed_status(provider, open_ones)
    there, absent = [], []
    for record, found in zip(open_ones, seen, strict=True):
        if found.gone:
            why = f"cancelled by {by} before it was submitted"
            absent.append(store.finish(record, "cancelled", exit_code=143, cause=why))
            continue
        known: dict[str, Any] = {"handle": {"id": id_in(found)}, "sent": None, "facts": found.facts}
        there.append(store.transition(record, "queued", **known))
    stop_all(there, by, hard=True)
    cleared = clear_together(absent)
    for record in absent:
        if record.name not in cleared:
            provider.delete_files(record.handle)


def _submissions(part: RemoteGroup | RemoteJob) -> Sequence[Submission]:
    return part.submissions if isinstance(part, RemoteGroup) else [part.submission]
