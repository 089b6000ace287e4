"""`nemotron jobs retry`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nemo_runspec.records.reference import LAST
from nemotron.cli.commands.jobs.messages import say
from nemotron.cli.commands.jobs.selector import Conditions, asked, words_of

if TYPE_CHECKING:
    from nemo_runspec.records import JobRecord, JobStore
    from nemo_runspec.records.index import Entry
    from nemo_runspec.sweeps.overview import Overview

_TO_REPEAT = ("failed", "lost")


def retry(jobs: Sequence[str], wanted: Conditions, everything: bool, yes: bool) -> int:
    """Runs jobs again: one as it was, attached or detached; several detached."""
    from nemo_runspec.sweeps.overview import Overview

    if len(jobs) == 1 and wanted.empty and not everything:
        return _once(jobs[0])
    overview = Overview()
    names = words_of(overview, jobs, wanted, "retry", everything=everything, accepts=_accepts(wanted))
    if not names:
        print("No such job is to be run again.")
        return 0
    if not jobs and not asked(overview, names, "retry", sure=yes):
        say("nothing was done")
        return 1
    return _several(overview, names)


def _accepts(wanted: Conditions) -> Callable[[Entry], bool]:
    """Sweeps, and jobs that belong to none, of the states that were named, else those that have come to no good."""

    def accepts(entry: Entry) -> bool:
        alone = entry.is_sweep or not entry.group
        return alone and entry.over and (bool(wanted.states) or entry.state in _TO_REPEAT)

    return accepts


def _several(overview: Overview, names: Sequence[str]) -> int:
    """Submits each anew, and leaves it alone. What cannot be is said, and the others are; the exit code."""
    from nemo_runspec.errors import UserError

    code = 0
    for entry in overview.meant(names):
        try:
            print(_detached(overview.job_store, entry), flush=True)
        except UserError as error:
            say(f"{entry.name}: {error}")
            code = error.exit_code
    return code


def _detached(store: JobStore, entry: Entry) -> str:
    from nemo_runspec.records.settle import settled
    from nemo_runspec.runner.retry import retry_detached
    from nemo_runspec.sweeps.submit import submit_retry
    from nemotron.cli.console import caller
    from nemotron.cli.sweep_console import sweep_caller

    if entry.is_sweep:
        return submit_retry(entry.name, sweep_caller())
    return retry_detached(_now(store, settled(store, entry.name)), caller())


def _once(job: str) -> int:
    """Runs a job again, or the failed runs of a sweep; the exit code of the new run, or of the first that failed."""
    from nemo_runspec.records import JobStore
    from nemo_runspec.records.settle import settled
    from nemo_runspec.runner.retry import retry as run_again
    from nemo_runspec.sweeps.overview import Overview
    from nemotron.cli.console import caller

    store = JobStore()
    overview = Overview(store)
    if job == LAST or not overview.members(job):
        entry = overview.one(job)
        if not entry.is_sweep:
            return run_again(store, _now(store, settled(store, entry.name)), caller())
        job = entry.name
    from nemo_runspec.sweeps.retry import retry_sweep
    from nemotron.cli.sweep_console import sweep_caller

    return retry_sweep(store, job, sweep_caller())


def _now(store: JobStore, record: JobRecord) -> JobRecord:
    """The record as it is now; a platform is asked unless it has said how the job ended."""
    from nemo_runspec.records.lost import refresh_lost
    from nemo_runspec.remote.refresh import refresh

    return refresh(store, [record])[0][0] if record.handle else refresh_lost(store, record)
