"""`nemotron jobs retry`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nemo_runspec.records.reference import LAST
from nemotron.cli.commands.jobs.messages import say
from nemotron.cli.commands.jobs.selector import Conditions, asked, words_of

if TYPE_CHECKING:
    from nemo_runspec.records import JobStore
    from nemo_runspec.records.index import Entry
    from nemo_runspec.sweeps.overview import Overview

_TO_REPEAT = ("failed", "lost")


def retry(jobs: Sequence[str], wanted: Conditions, everything: bool, yes: bool, as_json: bool) -> int:
    """Runs jobs again: one as it was, attached or detached; several detached."""
    from nemo_runspec.sweeps.overview import Overview

    if len(jobs) == 1 and wanted.empty and not everything:
        return _once(jobs[0], as_json)
    overview = Overview()
    names = words_of(overview, jobs, wanted, "retry", everything=everything, accepts=_accepts(wanted))
    if not names:
        print("No such job is to be run again.", file=sys.stderr if as_json else sys.stdout)
        return 0
    if not jobs and not asked(overview, names, "retry", sure=yes):
        say("nothing was done")
        return 1
    return _several(overview, names, as_json)


def _accepts(wanted: Conditions) -> Callable[[Entry], bool]:
    """Sweeps, and jobs that belong to none, of the states that were named, else those that have come to no good."""

    def accepts(entry: Entry) -> bool:
        alone = entry.is_sweep or not entry.group
        return alone and entry.over and (bool(wanted.states) or entry.state in _TO_REPEAT)

    return accepts


def _several(overview: Overview, names: Sequence[str], as_json: bool) -> int:
    """Submits each anew, and leaves it alone. What cannot be is said, and the others are; the exit code."""
    from nemo_runspec.errors import UserError
    from nemotron.cli.as_json import submission_of
    from nemotron.cli.forms import json_text

    code = 0
    for entry in overview.meant(names):
        try:
            name = _detached(overview.job_store, entry)
            print(json_text(submission_of(name)) if as_json else name, flush=True)
        except UserError as error:
            say(f"{entry.name}: {error}")
            code = error.exit_code
    return code


def _detached(store: JobStore, entry: Entry) -> str:
    from nemo_runspec.remote.refresh import current
    from nemo_runspec.runner.retry import retry_detached
    from nemo_runspec.sweeps.submit import submit_retry
    from nemotron.cli.console import caller
    from nemotron.cli.sweep_console import sweep_caller

    if entry.is_sweep:
        return submit_retry(entry.name, sweep_caller())
    return retry_detached(current(store, entry.name), caller())


def _once(job: str, as_json: bool) -> int:
    """Runs a job again, or the failed runs of a sweep; the exit code of the new run, or of the first that failed."""
    from nemo_runspec.records import JobStore
    from nemo_runspec.remote.refresh import current
    from nemo_runspec.runner.retry import retry as run_again
    from nemo_runspec.sweeps.overview import Overview
    from nemotron.cli.as_json import run_job, run_sweep

    store = JobStore()
    overview = Overview(store)
    if job == LAST or not overview.members(job):
        entry = overview.one(job)
        if not entry.is_sweep:
            now = current(store, entry.name)
            return run_job(lambda caller: run_again(store, now, caller), as_json=as_json)
        job = entry.name
    from nemo_runspec.sweeps.retry import retry_sweep

    return run_sweep(lambda caller: retry_sweep(store, job, caller), as_json=as_json)
