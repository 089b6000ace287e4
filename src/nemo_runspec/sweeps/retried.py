"""A sweep whose failed runs are run again: what it was, or what is left of it, and the new jobs in their places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nemo_runspec.errors import UserError
from nemo_runspec.planning.codec import load_plan
from nemo_runspec.plans.model import Plan
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.sweeps.model import Member, Sweep, options_of, overrides_of
from nemo_runspec.sweeps.run import SweepWatcher
from nemo_runspec.sweeps.store import SweepStore


def reopened(sweeps: SweepStore, jobs: JobStore, group: str, records: Sequence[JobRecord], plan: Plan) -> Sweep:
    """The sweep as it was, without its end. Where only its jobs are left, it is made of these.

    Args:
        records: the newest job of each of its runs.
        plan: of one that is run again, which names its options.
    """
    if group in sweeps.names():
        found = sweeps.get(group)
    else:
        made = records[0].states[0].time
        members = tuple(_member(jobs, index, record) for index, record in enumerate(records))
        found = Sweep(group, plan.recipe.path, made, options=options_of(plan), members=members)
    return replace(found, ended=None, verdict="", exit_code=None, cause="", launcher=None)


def retried_member(sweep: Sweep, failed: JobRecord, fresh: str) -> Member:
    """The member whose job has failed, with its new job.

    Args:
        fresh: the name of the new job.

    Raises:
        UserError: the sweep knows nothing of the job that has failed.
    """
    names = {failed.name, failed.retry_of}
    member = next((m for m in sweep.members if names & {m.name, *m.before}), None)
    if member is None:
        raise UserError(
            f"job '{failed.name}' is no run that sweep '{sweep.group}' knows",
            remedy=f"run it again by itself: nemotron jobs retry {failed.name}",
        )
    folder = JobStore().folder(fresh)
    before = (*member.before, member.name) if Path(member.job_dir).is_dir() else member.before
    return Member(member.index, fresh, str(folder), member.overrides, before=before)


@dataclass(frozen=True)
class ReplacingWatcher:
    """A watcher that is told what another is told, and puts a member into its place as it starts and as it ends.

    So a run that is never reached stays the one that has failed.
    """

    place: Callable[[Member], None]
    other: SweepWatcher

    def started(self, member: Member) -> None:
        """A member is started now."""
        self.place(member)
        self.other.started(member)

    def said(self, member: Member, line: str) -> None:
        """A line of nemotron's own about a member."""
        self.other.said(member, line)

    def ended(self, member: Member) -> None:
        """A member has ended."""
        self.place(member)
        self.other.ended(member)

    def tick(self) -> None:
        """Called about ten times a second."""
        self.other.tick()


def _member(jobs: JobStore, index: int, record: JobRecord) -> Member:
    folder = jobs.folder(record.name)
    try:
        overrides = overrides_of(load_plan(folder / "plan.json").overrides)
    except UserError:  # the table lacks what was different about it, and no more
        overrides = {}
    return Member(index, record.name, str(folder), overrides, record)
