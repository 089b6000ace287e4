"""The failed runs of a sweep once more; those that have succeeded are left as they are.

The new jobs take the places of the failed ones in the sweep, which is from then on what its runs are.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from nemo_runspec.console import Say
from nemo_runspec.errors import UserError
from nemo_runspec.interrupts import Interrupts
from nemo_runspec.planning.planned import Planned
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.cancel_request import forget_request
from nemo_runspec.remote.job import RemoteJob
from nemo_runspec.remote.refresh import refresh
from nemo_runspec.runner.retry import enter_directory, retry_plan
from nemo_runspec.submission.request import RetriedJob
from nemo_runspec.supervise.sweep_run import run_member as local_member
from nemo_runspec.sweeps.console import SweepCaller
from nemo_runspec.sweeps.detached import detached_sweep
from nemo_runspec.sweeps.elsewhere import AttachedSweep, cancel_interrupted, say_next_commands
from nemo_runspec.sweeps.life import Recorded, SweepLifecycle, is_platform_managed, is_remote
from nemo_runspec.sweeps.model import PIPELINE, Sweep
from nemo_runspec.sweeps.overview import Overview
from nemo_runspec.sweeps.remote import run_member as remote_member
from nemo_runspec.sweeps.results import discard_results
from nemo_runspec.sweeps.retried import ReplacingWatcher, reopened, retried_member
from nemo_runspec.sweeps.run import RunMember, Runner
from nemo_runspec.sweeps.status import status_of
from nemo_runspec.sweeps.store import SweepStore
from nemo_runspec.sweeps.table import varying_keys
from nemo_runspec.text import count

_FAILED = frozenset({"failed", "lost"})
"""States of runs that are run again. One that was cancelled was not wanted."""

RetriedRun = tuple[JobRecord, Planned, RetriedJob]
"""A job that failed, its plan under a new name, and where its package lies."""


def retry_sweep(store: JobStore, group: str, caller: SweepCaller) -> int:
    """Runs the failed runs of a sweep again, as the sweep itself ran them; all are planned before the first is started.

    Here that is `max_parallel` at a time, attached or detached as it was. On a platform they are submitted together,
    unless it cannot hold a limit that is asked for.

    Returns: 0 where the sweep is detached; else its exit code, of all its runs; 130 after Ctrl-C.

    Raises:
        UserError: one still runs, none has failed, or what one needs is gone: nothing was started then.
    """
    overview = Overview(store)
    _refuse_pipeline(_sweep(overview.sweep_store, group))
    records = _newest(store, overview, group)
    _refuse_open(overview.sweep_store, group, records)
    failed = [record for record in records if record.state in _FAILED]
    if not failed:
        raise UserError(f"no run of sweep '{group}' has failed", remedy=f"nemotron jobs show {group}")
    runs = [(record, *retry_plan(store, record)) for record in failed]
    caller.console.say(f"{group}: {count(len(runs), 'run')} of {len(records)} again")
    plan = runs[0][1].plan
    sweep = reopened(overview.sweep_store, store, group, records, plan)
    alone = is_platform_managed(plan) and sweep.sweeper is None
    return _retry_elsewhere(sweep, runs, caller) if alone else _retry_here(sweep, runs, caller)


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


def _refuse_pipeline(sweep: Sweep | None) -> None:
    """Raises `UserError` for a pipeline: its own command runs what has failed, and all that depends on it."""
    if sweep is not None and sweep.kind == PIPELINE:
        again = shlex.join(["nemotron", *sweep.argv[1:]])
        raise UserError(f"'{sweep.group}' is a pipeline, which goes on by its own command", remedy=again)


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


def _retry_here(sweep: Sweep, runs: Sequence[RetriedRun], caller: SweepCaller) -> int:
    """A process leads the sweep: this one, or one without a terminal, as before."""
    record, planned, _ = runs[0]
    enter_directory(record, planned.plan)
    if record.mode == "batch" or not caller.attached:
        return detached_sweep(lambda recorded: _lead(sweep, runs, caller, recorded), caller)
    return _lead(sweep, runs, caller, lambda _: None)


def _lead(sweep: Sweep, runs: Sequence[RetriedRun], caller: SweepCaller, recorded: Recorded) -> int:
    planned = [each for _, each, _ in runs]
    batch = [(retried_member(sweep, record, each.plan.name), each) for record, each, _ in runs]
    life = SweepLifecycle(sweep, caller, _how_to_run(runs), recorded)
    _discard_end(life.folder)
    keys = varying_keys(sweep.members)
    with life.session(planned, replace(sweep, unattended=False)), life.watched(planned, keys, len(batch)) as context:
        Runner(replace(context, watcher=ReplacingWatcher(life.place, context.watcher)), sweep.options).run(batch)
    return life.sweep.exit_code or 0


def _how_to_run(runs: Sequence[RetriedRun]) -> RunMember:
    remote = is_remote(runs[0][1].plan)
    run_member = remote_member if remote else local_member
    retries = {planned.plan.name: retried for _, planned, retried in runs}

    def run(planned: Planned, *, argv: Sequence[str], group: str, interrupts: Interrupts, say: Say) -> JobRecord:
        retried = retries[planned.plan.name]
        return run_member(planned, argv=argv, group=group, interrupts=interrupts, say=say, retried=retried)

    return run


def _retry_elsewhere(sweep: Sweep, runs: Sequence[RetriedRun], caller: SweepCaller) -> int:
    """The platform has the runs: all are submitted, each as a job by itself, and waited for unless they were not."""
    members = [retried_member(sweep, record, planned.plan.name) for record, planned, _ in runs]
    console = caller.console
    jobs = [
        RemoteJob(planned.submission(caller.argv, group=sweep.group, retried=retried), console.say)
        for _, planned, retried in runs
    ]
    for job in jobs:
        job.record_job()
    fresh = {member.index: member for member in members}
    sweep = replace(sweep, unattended=True, members=tuple(fresh.get(old.index, old) for old in sweep.members))
    sweeps = SweepStore()
    _discard_end(sweeps.folder(sweep.group))
    sweeps.write(sweep)
    try:
        _submit(runs, jobs, console.say)
    except KeyboardInterrupt:
        return cancel_interrupted(console, sweep.group, [job.plan.name for job in jobs])
    if runs[0][0].mode != "batch" and caller.attached:
        submitted = [replace(member, record=job.record) for member, job in zip(members, jobs, strict=True)]
        return AttachedSweep(console, sweep, submitted).run()
    console.answer(sweep.group)
    say_next_commands(console, sweep.group)
    return 0


def _submit(runs: Sequence[RetriedRun], jobs: Sequence[RemoteJob], say: Say) -> None:
    for (record, _, _), job in zip(runs, jobs, strict=True):
        job.submit()
        say(f"{record.name}: run again as {job.plan.name} ({job.record.id})")


def _discard_end(folder: Path) -> None:
    """What told of the sweep's end is gone: the results, and who wanted it."""
    try:
        discard_results(folder)
        forget_request(folder)
    except OSError as error:
        raise UserError(f"the sweep's results cannot be replaced: {error.strerror}", where=str(folder)) from None
