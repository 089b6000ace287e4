"""`nemotron jobs wait | stop | cancel`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nemo_runspec.errors import UserError
from nemo_runspec.records.cancel_request import GRACE
from nemo_runspec.records.record import code_and_why
from nemo_runspec.text import one_line
from nemotron.cli.commands.jobs.messages import say
from nemotron.cli.commands.jobs.selector import Conditions, asked, words_of
from nemotron.cli.forms import print_json
from nemotron.cli.job_formatting import as_json as to_json
from nemotron.cli.job_formatting import coloured
from nemotron.cli.sweep_summary import SweepNow, sweep_json, sweep_now, sweep_said

if TYPE_CHECKING:
    from nemo_runspec.records import JobRecord
    from nemo_runspec.records.index import Entry
    from nemo_runspec.sweeps.overview import Overview

_TIMED_OUT = 124
"""As `timeout(1)` of GNU coreutils says it."""


def wait(jobs: Sequence[str], wanted: Conditions, everything: bool, timeout: str | None, as_json: bool) -> int:
    """Waits; the exit code of the first job or sweep that has not succeeded."""
    from nemo_runspec.records import JobStore
    from nemo_runspec.records.select import duration_of
    from nemo_runspec.remote.wait import exit_code_of, wait_for
    from nemo_runspec.sweeps.control import wait_for_end
    from nemo_runspec.sweeps.overview import Overview
    from nemo_runspec.sweeps.settle import settle_those_of
    from nemo_runspec.sweeps.status import exit_code_of as sweep_code

    store = JobStore()
    limit = duration_of(timeout, "--timeout", bare=True) if timeout else None
    began = time.monotonic()
    before = Overview(store)
    chosen = words_of(before, jobs, wanted, "wait", everything=everything, accepts=_not_over if everything else _any)
    meant = before.meant(chosen)
    sweeps = [entry.name for entry in meant if entry.is_sweep]
    _say_unknown(before, sweeps)
    if not wait_for_end(before.sweep_store, sweeps, limit):
        say(f"the time is up: {', '.join(sweeps)} not over")
        return _TIMED_OUT
    limit = None if limit is None else max(0.0, limit - (time.monotonic() - began))
    after = Overview(store) if sweeps else before  # with the jobs they have started meanwhile
    names = [entry.name for entry in after.with_members(meant)]
    told: set[str] = set()

    def trouble(text: str) -> None:
        if text not in told:
            say(f"{text}; asking again")
        told.add(text)

    records = wait_for(store, names, seconds=limit, seen=lambda record: _say_seen(record, as_json), trouble=trouble)
    settle_those_of(after.sweep_store, records)
    ended = [sweep_now(Overview(store), name) for name in sweeps]
    _print_ended(ended, records, as_json)
    left = [record for record in records if not record.over]
    if left:
        say(f"the time is up: {_names(left)} {'is' if len(left) == 1 else 'are'} not over")
        return _TIMED_OUT
    codes = {found.name: sweep_code(found.status) for found in ended} | {r.name: exit_code_of(r) for r in records}
    return next((code for code in (codes[entry.name] for entry in meant) if code), 0)


def stop(jobs: Sequence[str], wanted: Conditions, everything: bool, grace: str | None, yes: bool, as_json: bool) -> int:
    """Ends jobs and sweeps, several at the same time. What their platforms keep of them stays."""
    return _end_meant("stop", jobs, wanted, everything, grace, yes, as_json)


def cancel(
    jobs: Sequence[str], wanted: Conditions, everything: bool, grace: str | None, yes: bool, as_json: bool
) -> int:
    """As `stop`; then what clouds keep of the jobs is deleted, and that is said line by line."""
    return _end_meant("cancel", jobs, wanted, everything, grace, yes, as_json)


def _end_meant(
    verb: str,
    jobs: Sequence[str],
    wanted: Conditions,
    everything: bool,
    grace: str | None,
    yes: bool,
    as_json: bool,
) -> int:
    """Ends the jobs that are named; those that meet conditions after a question."""
    from nemo_runspec.sweeps.overview import Overview

    overview = Overview()
    names = words_of(overview, jobs, wanted, verb, everything=everything, accepts=_not_over)
    if not names:
        return _nothing(as_json, "No such job goes on.")
    if not jobs and not asked(overview, names, verb, sure=yes):
        say("nothing was done")
        return 1
    return _end(names, grace, as_json, verb)


def _not_over(entry: Entry) -> bool:
    return not entry.over


def _any(entry: Entry) -> bool:
    return True


def _nothing(as_json: bool, said: str) -> int:
    if as_json:
        print_json([])
    else:
        print(said)
    return 0


def _end(jobs: Sequence[str], grace: str | None, as_json: bool, command: str) -> int:
    from nemo_runspec.records import JobStore
    from nemo_runspec.records.select import duration_of
    from nemo_runspec.sweeps.cancel import end
    from nemo_runspec.sweeps.overview import Overview

    seconds = duration_of(grace, "--grace", bare=True) if grace else GRACE
    store = JobStore()
    overview = Overview(store)
    meant = overview.meant(jobs)
    sweeps = [sweep_now(overview, entry.name) for entry in meant if entry.is_sweep]
    jobs_meant = [entry.name for entry in overview.with_members(meant)]
    groups = [each.name for each in sweeps]
    by = f"nemotron jobs {command}"
    done = end(
        store, overview.sweep_store, jobs_meant, groups, grace=seconds, by=by, delete=command == "cancel", say=say
    )
    after = Overview(store) if sweeps else overview
    sweeps_now = [sweep_now(after, name) for name in groups]
    ended = [now for _, now in done.jobs]
    _warn_of_running(ended)
    _print_cancelled(sweeps, sweeps_now, done.jobs, done.deleted, as_json)
    _raise_first(done.problems)
    over = all(record.over for record in ended) and all(each.status.over for each in sweeps_now)
    return 0 if over and not done.undeleted else 2


def _warn_of_running(records: Sequence[JobRecord]) -> None:
    """Says of jobs that their platforms have not stopped them, and what does."""
    from nemo_runspec.remote.deletion import is_kept

    for record in records:
        if not record.over and is_kept(record):
            say(f"{record.name}: its platform has not stopped it; nemotron jobs cancel deletes it there, with its log")


def _say_unknown(overview: Overview, sweeps: Sequence[str]) -> None:
    """What may take for ever is said at once."""
    for found in (sweep_now(overview, name) for name in sweeps):
        if found.status.state == "unknown" and not found.problem:
            say(sweep_said(found))


def _print_ended(sweeps: Sequence[SweepNow], records: Sequence[JobRecord], as_json: bool) -> None:
    if as_json:
        print_json([*map(sweep_json, sweeps), *map(to_json, records)])
        return
    for found in sweeps:
        print(sweep_said(found), flush=True)


def _print_cancelled(
    sweeps_before: Sequence[SweepNow],
    sweeps: Sequence[SweepNow],
    jobs: Sequence[tuple[JobRecord, JobRecord]],
    deleted: Mapping[str, Sequence[str]],
    as_json: bool,
) -> None:
    if as_json:
        print_json([*map(sweep_json, sweeps), *(_with_deleted(record, deleted) for _, record in jobs)])
        return
    for old, record in jobs:
        print(_state_line(record, _already(old.over and record.state == old.state)))
        for line in deleted.get(record.name, ()):
            print(one_line(f"{record.name}: deleted: {line}"))
    for found, was in zip(sweeps, sweeps_before, strict=True):
        print(sweep_said(found, _already(was.status.over)))


def _with_deleted(record: JobRecord, deleted: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    told = {"deleted": list(deleted[record.name])} if record.name in deleted else {}
    return {**to_json(record), **told}


def _already(over: bool) -> str:
    return " already" if over else ""


def _raise_first(problems: Sequence[UserError]) -> None:
    for problem in problems[1:]:
        print(f"error: {problem}", file=sys.stderr, flush=True)
    if problems:
        raise problems[0]


def _say_seen(record: JobRecord, as_json: bool) -> None:
    """A job that is over on standard output; one whose state is not known on the error stream, as it may take long."""
    if record.over and not as_json:
        print(_state_line(record), flush=True)
    elif record.state == "unknown":
        say(_state_line(record))


def _state_line(record: JobRecord, more: str = "") -> str:
    rest = one_line(code_and_why(record.exit_code or None, record.why))
    return f"{record.name}:{more} {coloured(record.state, record.state)}{rest}"


def _names(records: Sequence[JobRecord]) -> str:
    return ", ".join(record.name for record in records[:5]) + (", …" if len(records) > 5 else "")
