"""`nemotron jobs retry SWEEP`: the failed runs of a sweep once more; those that have succeeded are left as they are.

The new jobs take the places of the failed ones in the sweep, which is from then on what its runs are.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from nemo_runspec.backends import get_backend
from nemo_runspec.errors import UserError
from nemo_runspec.jobs import JobRecord, JobStore
from nemo_runspec.jobs.wait import exit_code_of, wait_for
from nemo_runspec.planning.build import Planned
from nemo_runspec.planning.codec import plan_to_json
from nemo_runspec.remote.job import RemoteJob
from nemo_runspec.remote.refresh import refresh
from nemo_runspec.supervise.submission import Again, Submission
from nemo_runspec.sweeps.overview import Overview
from nemo_runspec.sweeps.status import status_of
from nemo_runspec.sweeps.store import SweepStore
from nemotron.cli.again import planned_again, run_planned
from nemotron.cli.text import count

if TYPE_CHECKING:
    from collections.abc import Callable

    from nemo_runspec.sweeps.model import Member, Sweep

_FAILED = frozenset({"failed", "lost"})
"""States of runs that are run again. One that was cancelled was not wanted."""

_INTERRUPTED = 130

Once = tuple[JobRecord, Planned, Again]
"""A job that failed, its plan under a new name, and where its package lies."""


def retry_sweep(store: JobStore, group: str, said: Callable[[JobRecord], str]) -> int:
    """Runs the failed runs of a sweep again, all that can be before the first is started.

    Elsewhere they are submitted together and waited for, unless they were detached; here they run one after another.

    Args:
        said: how a job that is over is told in a line.

    Returns: 0 where all have succeeded, or are detached; else the first exit code that is not 0; 130 after Ctrl-C.

    Raises:
        UserError: one still runs, none has failed, or what one needs is gone: nothing was started then.
    """
    overview = Overview(store)
    records = _newest(store, overview, group)
    _refuse_open(overview.sweep_store, group, records)
    failed = [record for record in records if record.state in _FAILED]
    if not failed:
        raise UserError(f"no run of sweep '{group}' has failed", remedy=f"nemotron jobs show {group}")
    runs = [(record, *planned_again(store, record)) for record in failed]
    _say(f"{group}: {count(len(runs), 'run')} of {len(records)} again")
    if get_backend(failed[0].executor).remote:
        return _elsewhere(store, group, runs, said)
    return _here(overview.sweep_store, group, runs)


def _newest(store: JobStore, overview: Overview, group: str) -> list[JobRecord]:
    """The sweep's runs as they are now; of one that was run again only the newest job."""
    found = [store.read(entry) for entry in overview.members(group)]
    known = [record for record in found if isinstance(record, JobRecord)]
    sweep = _sweep(overview.sweep_store, group)
    runs = {name for member in sweep.members for name in (member.name, *member.before)} if sweep else set()
    replaced = {record.retry_of for record in known}
    kept = [record for record in known if record.name not in replaced and _is_run(record, runs)]
    return [record for record, _ in refresh(store, kept)]


def _is_run(record: JobRecord, runs: Collection[str]) -> bool:
    """False for a job that made an input of a sweep. Where only the jobs are left of one, they cannot be told apart."""
    return not runs or record.name in runs or record.retry_of is not None


def _sweep(sweeps: SweepStore, group: str) -> Sweep | None:
    return sweeps.read(group) if group in sweeps.names() else None


def _refuse_open(sweeps: SweepStore, group: str, records: Sequence[JobRecord]) -> None:
    sweep = _sweep(sweeps, group)
    left = [f"{record.name} is {record.state}" for record in records if not record.over]
    if sweep and not left and not (status := status_of(sweep)).over:
        left = [f"it is {status.state}"]
    if left:
        raise UserError(
            f"sweep '{group}' goes on: {left[0]}",
            remedy=f"nemotron jobs wait {group}, or end it: nemotron jobs cancel {group}",
        )


def _here(sweeps: SweepStore, group: str, runs: Sequence[Once]) -> int:
    codes = []
    for record, planned, again in runs:
        try:
            codes.append(run_planned(record, planned, again, group))
        finally:
            if JobStore().exists(planned.plan.name):
                _replace(sweeps, group, {record.name: planned.plan.name})
        if codes[-1] in (_INTERRUPTED, 143, 129):
            break
    return next((code for code in codes if code), 0)


def _elsewhere(store: JobStore, group: str, runs: Sequence[Once], said: Callable[[JobRecord], str]) -> int:
    jobs = []
    for _, planned, again in runs:
        given = Submission(
            planned.plan, plan_to_json(planned.plan), planned.secret_values, tuple(sys.argv), group=group, again=again
        )
        jobs.append(RemoteJob(given, _say))
    for job in jobs:
        job.record_job()
    _replace(SweepStore(), group, {record.name: planned.plan.name for record, planned, _ in runs})
    for (record, _, _), job in zip(runs, jobs, strict=True):
        job.submit()
        _say(f"{record.name}: run again as {job.plan.name} ({job.record.handle.get('id')})")
    names = [job.plan.name for job in jobs]
    if runs[0][0].mode == "batch":
        print("\n".join(names))
        return 0
    return _waited(store, names, said)


def _waited(store: JobStore, names: Sequence[str], said: Callable[[JobRecord], str]) -> int:
    def seen(record: JobRecord) -> None:
        if record.over:
            print(said(record), flush=True)

    try:
        records = wait_for(store, names, seconds=None, seen=seen)
    except KeyboardInterrupt:
        _say("no longer waited for; the jobs go on")
        return _INTERRUPTED
    return next((code for record in records if (code := exit_code_of(record))), 0)


def _replace(sweeps: SweepStore, group: str, names: Mapping[str, str]) -> None:
    """Lets new jobs take the places of others in the sweep; it has no process and no end of its own after that."""
    sweep = _sweep(sweeps, group)
    if sweep is None:
        return
    members = tuple(_replaced(member, names.get(member.name)) for member in sweep.members)
    sweeps.write(
        dataclasses.replace(
            sweep, members=members, ended=None, verdict="", exit_code=None, cause="", launcher=None, alone=True
        )
    )


def _replaced(member: Member, name: str | None) -> Member:
    if name is None:
        return member
    folder = str(JobStore().folder(name))
    before = (*member.before, member.name)
    fresh = dataclasses.replace(member, name=name, job_dir=folder, before=before)
    return dataclasses.replace(fresh, record=None, problem="", exit_code=None, was="")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
