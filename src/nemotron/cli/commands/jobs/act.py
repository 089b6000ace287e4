"""`nemotron jobs wait | cancel | retry`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nemo_runspec.errors import UserError
from nemotron.cli.commands.jobs.looks import as_json as to_json
from nemotron.cli.commands.jobs.looks import coloured, one_line

if TYPE_CHECKING:
    from nemo_runspec.jobs import JobRecord, JobStore
    from nemo_runspec.jobs.index import Entry
    from nemo_runspec.sweeps.model import Sweep

GRACE = 10.0
"""Seconds between TERM and KILL."""

_MARGIN = 15.0
"""Seconds beyond the grace that a sweep has to write down its end."""

_AT_ONCE = 16
"""Jobs that are ended at the same time."""

_TIMED_OUT = 124
"""As `timeout(1)` of GNU coreutils says it."""


def wait(jobs: Sequence[str], timeout: str | None, as_json: bool) -> int:
    """Waits; the exit code of the first job that has not succeeded."""
    from nemo_runspec.jobs import JobStore
    from nemo_runspec.jobs.select import seconds_in
    from nemo_runspec.jobs.wait import exit_code_of, wait_for
    from nemo_runspec.sweeps.control import wait_for_end
    from nemo_runspec.sweeps.store import SweepStore

    store = JobStore()
    limit = seconds_in(timeout, "--timeout", plain=True) if timeout else None
    began = time.monotonic()
    sweeps = [sweep.group for sweep in sweeps_among(jobs)]
    if not wait_for_end(SweepStore(), sweeps, limit):
        say(f"the time is up: {', '.join(sweeps)} not over")
        return _TIMED_OUT
    limit = None if limit is None else max(0.0, limit - (time.monotonic() - began))
    names = [entry.name for entry in named(store, jobs)]
    records = wait_for(store, names, seconds=limit, seen=lambda record: _say_seen(record, as_json))
    if as_json:
        _print_json(records)
    left = [record for record in records if not record.over]
    if left:
        say(f"the time is up: {_names(left)} {'is' if len(left) == 1 else 'are'} not over")
        return _TIMED_OUT
    return next((code for code in map(exit_code_of, records) if code), 0)


def cancel(jobs: Sequence[str], grace: str | None, as_json: bool) -> int:
    """Ends jobs, several at the same time."""
    from concurrent.futures import ThreadPoolExecutor

    from nemo_runspec.jobs import JobStore
    from nemo_runspec.jobs.select import seconds_in
    from nemo_runspec.sweeps.control import stop, wait_for_end
    from nemo_runspec.sweeps.store import SweepStore

    seconds = seconds_in(grace, "--grace", plain=True) if grace else GRACE
    store = JobStore()
    sweeps = sweeps_among(jobs)
    for sweep in sweeps:
        stop(sweep)
    records = [store.by_name(entry.name) for entry in named(store, jobs)]
    with ThreadPoolExecutor(min(_AT_ONCE, len(records) or 1)) as pool:
        done = list(pool.map(lambda record: _cancel_one(store, record, seconds), records))
    wait_for_end(SweepStore(), [sweep.group for sweep in sweeps], seconds + _MARGIN)
    ended = [result for result in done if not isinstance(result, UserError)]
    if as_json:
        _print_json(ended)
    else:
        for record, before in zip(ended, _matching(records, ended), strict=True):
            print(_said(record, " already" if before.over else ""))
    problems = [result for result in done if isinstance(result, UserError)]
    for problem in problems[1:]:
        say(str(problem))
    if problems:
        raise problems[0]
    return 0 if all(record.over for record in ended) else 2


def retry(job: str) -> int:
    """Runs a job again; the exit code of the new run."""
    from nemo_runspec.jobs import JobStore
    from nemotron.cli.again import retry as run_again

    store = JobStore()
    return run_again(store, store.get(job))


def named(store: JobStore, words: Sequence[str]) -> list[Entry]:
    """The jobs that are meant; a sweep that has not started one yet means none. Raises `UserError`."""
    from nemo_runspec.jobs.reference import find_all, group_members

    entries = store.entries()
    idle = {sweep.group for sweep in sweeps_among(words) if not group_members(entries, sweep.group)}
    return find_all(entries, [word for word in words if word not in idle], store.root)


def sweeps_among(words: Sequence[str]) -> list[Sweep]:
    """The sweeps that are named."""
    from nemo_runspec.sweeps.control import sweeps_named
    from nemo_runspec.sweeps.store import SweepStore

    return sweeps_named(SweepStore(), words)


def _cancel_one(store: JobStore, record: JobRecord, grace: float) -> JobRecord | UserError:
    from nemo_runspec.supervise.control import cancel as end

    if record.over:
        return record
    try:
        return end(store, record, grace=grace, say=say)
    except UserError as error:
        return error
    except OSError as error:
        return UserError(f"job '{record.name}' cannot be ended: {error.strerror or error}", where=error.filename)


def _matching(before: Sequence[JobRecord], after: Sequence[JobRecord]) -> list[JobRecord]:
    by_name = {record.name: record for record in before}
    return [by_name[record.name] for record in after]


def _say_seen(record: JobRecord, as_json: bool) -> None:
    """A job that is over on standard output; one whose state is not known on the error stream, as it may take long."""
    if record.over and not as_json:
        print(_said(record), flush=True)
    elif record.state == "unknown":
        say(_said(record))


def _said(record: JobRecord, more: str = "") -> str:
    code = f", exit code {record.exit_code}" if record.exit_code else ""
    why = record.reason or record.cause
    rest = one_line(f"{code}{f': {why}' if why else ''}")
    return f"{record.name}:{more} {coloured(record.state, record.state)}{rest}"


def _names(records: Sequence[JobRecord]) -> str:
    return ", ".join(record.name for record in records[:5]) + (", …" if len(records) > 5 else "")


def _print_json(records: Sequence[JobRecord]) -> None:
    print(json.dumps([to_json(record) for record in records], indent=2, ensure_ascii=False))


def say(text: str) -> None:
    """One line on the error stream."""
    print(text, file=sys.stderr, flush=True)
