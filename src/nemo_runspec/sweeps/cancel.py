"""Jobs and sweeps ended, in the one order in which the commands and Python do it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from nemo_runspec.console import Say
from nemo_runspec.errors import UserError
from nemo_runspec.processes import user_name
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.cancel_request import MARGIN, CancelRequest
from nemo_runspec.records.settle import settled
from nemo_runspec.remote.deletion import after_deletion, delete_ended
from nemo_runspec.runner.cancel import cancel_all, with_makers
from nemo_runspec.sweeps import control
from nemo_runspec.sweeps.settle import settle_those_of
from nemo_runspec.sweeps.store import SweepStore


@dataclass(frozen=True)
class Cancelled:
    """What came of it.

    Attributes:
        jobs: those that could be asked to end, makers of their inputs among them: as they were, and as they are now.
        deleted: what their platforms have deleted of them, in words, by job.
        problems: what keeps jobs from being ended.
        undeleted: what keeps their platforms from deleting them.
    """

    jobs: Sequence[tuple[JobRecord, JobRecord]]
    deleted: Mapping[str, Sequence[str]]
    problems: Sequence[UserError]
    undeleted: Sequence[UserError]


def end(
    store: JobStore,
    sweeps: SweepStore,
    jobs: Collection[str],
    groups: Sequence[str],
    *,
    grace: float,
    by: str,
    delete: bool,
    say: Say,
) -> Cancelled:
    """Ends jobs, those that only make inputs for them, and sweeps, which start no more. What is over stays so.

    Args:
        jobs: their names, those of the sweeps' members among them.
        groups: the sweeps'.
        grace: seconds between asking a job to end and ending it.
        by: the command or package that wants that, for a person.
        delete: what clouds keep of jobs that were cancelled is deleted there, once their logs are here.

    Raises:
        UserError: a job or a sweep cannot be read, or a sweep's process cannot be reached from here.
    """
    before = with_makers(store, [settled(store, name) for name in jobs], say)
    for group in groups:
        running = [store.folder(record.name) for record in before if record.group == group and not record.over]
        control.stop(sweeps, group, CancelRequest(grace, by), running)
    done = cancel_all(store, before, grace, f"{by} ({user_name()})", say)
    control.wait_for_end(sweeps, groups, grace + MARGIN)
    ended = [record for record in done if isinstance(record, JobRecord)]
    deleted, undeleted = delete_ended(store, ended, say) if delete else ({}, [])
    now = {record.name: record for record in after_deletion(store, ended, deleted)}
    settle_those_of(sweeps, now.values())
    return Cancelled(
        [(record, now[record.name]) for record in before if record.name in now],
        deleted,
        [error for error in done if isinstance(error, UserError)],
        undeleted,
    )
