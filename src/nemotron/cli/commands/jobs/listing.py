"""`nemotron jobs list`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from nemo_runspec.errors import UserError
from nemotron.cli.commands.jobs.looks import as_json as to_json
from nemotron.cli.commands.jobs.looks import numbers, one_line, print_table, short_time, took
from nemotron.cli.text import count, paint

if TYPE_CHECKING:
    from nemo_runspec.jobs import JobRecord, JobStore, Unreadable
    from nemo_runspec.jobs.index import Entry

USUAL = 25
"""Lines without `--limit` and `--all`."""

_HEAD = ("JOB", "STATE", "STARTED", "TIME", "WHERE", "REMARK")
_MEMBER_HEAD = ("JOB", "STATE", "TIME", "WITH")
"""The jobs of one sweep: what tells them apart, and what came of it."""

_URGENT = ("running", "starting", "queued", "submitting", "planned", "failed", "lost", "unknown")
"""Which state stands for a whole sweep: the first of these that one of its jobs is in."""


def call(
    states: Sequence[str],
    recipe: str | None,
    profile: str | None,
    group: str | None,
    since: str | None,
    limit: int | None,
    everything: bool,
    as_json: bool,
) -> int:
    """Prints the list."""
    from nemo_runspec.jobs import JobStore
    from nemo_runspec.jobs.select import Filter, seconds_in, select, states_of

    limit = _limit(limit, everything, as_json)
    wanted = Filter(states_of(states), recipe, profile, group, seconds_in(since, "--since") if since else None)
    store = JobStore()
    known = store.entries()
    found = select(known, wanted, known_recipes)
    if as_json:
        print(json.dumps([to_json(store.read(e)) for e in found[:limit]], indent=2, ensure_ascii=False))
        return 0
    if not found:
        print("No jobs yet." if not known else f"No such jobs; {count(len(known), 'job')} without conditions.")
        return 0
    lines = [[e] for e in found] if states or group else _blocks(found)
    if group:
        _print_members(store, found[:limit])
    else:
        _print(store, lines[:limit])
    _print_rest(lines[len(lines) if limit is None else limit :], len(found))
    return 0


def known_recipes() -> Iterable[str]:
    """Paths of the recipes there are."""
    from nemo_runspec.catalog import find_recipes

    return [recipe.path for recipe in find_recipes()]


def _limit(limit: int | None, everything: bool, as_json: bool) -> int | None:
    if limit is not None and limit < 1:
        raise UserError(f"--limit: {limit} is not a number of lines", remedy="1 or more, or --all")
    if limit is not None and everything:
        raise UserError("--limit and --all contradict each other", remedy="leave one of them out")
    return limit if limit is not None or everything or as_json else USUAL


def _blocks(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Jobs alone, and the jobs of a sweep together where the newest of them stands."""
    blocks: dict[str, list[Entry]] = {}
    for entry in entries:
        key = f"group {entry.group}" if entry.group else entry.name  # a space: no job's name has one
        blocks.setdefault(key, []).append(entry)
    return list(blocks.values())


def _print(store: JobStore, lines: Sequence[Sequence[Entry]]) -> None:
    rows, states = [], []
    for line in lines:
        if line[0].group and len(line) > 1:
            states.append(_state_of_all(line))
            rows.append(_sweep_row(line, states[-1]))
        else:
            record = store.read(line[0])
            states.append(record.state)
            rows.append(_row(record))
    print_table(_HEAD, rows, states)


def _print_members(store: JobStore, members: Sequence[Entry]) -> None:
    records = [store.read(entry) for entry in members]
    common = _common_overrides(records)
    rows = [_member_row(record, common) for record in records]
    print_table(_MEMBER_HEAD, rows, [record.state for record in records])


def _row(record: JobRecord | Unreadable) -> tuple[str, ...]:
    from nemo_runspec.jobs import Unreadable

    if isinstance(record, Unreadable):
        return (record.name, record.state, short_time(record.created), "", "", _unreadable(record))
    where = record.profile or record.executor
    own = " ".join(record.overrides) if record.group else ""
    retried = f"retry of {record.retry_of}" if record.retry_of else ""
    remark = _joined(own, record.reason or record.cause or retried)
    return (record.name, _state(record), short_time(record.created), took(record), where, remark)


def _member_row(record: JobRecord | Unreadable, common: frozenset[str]) -> tuple[str, ...]:
    from nemo_runspec.jobs import Unreadable

    if isinstance(record, Unreadable):
        return (record.name, record.state, "", _unreadable(record))
    own = " ".join(text for text in record.overrides if text not in common)
    return (
        record.name,
        _state(record),
        took(record),
        _joined(own, numbers(record.metrics), record.reason or record.cause),
    )


def _state(record: JobRecord) -> str:
    """The state; of a failure the exit code too."""
    code = f" {record.exit_code}" if record.state == "failed" and record.exit_code is not None else ""
    return record.state + code


def _joined(*texts: str) -> str:
    return one_line("; ".join(filter(None, texts)))


def _unreadable(record: Unreadable) -> str:
    return one_line(f"its record cannot be read: {record.problem}")


def _common_overrides(records: Iterable[JobRecord | Unreadable]) -> frozenset[str]:
    """What all jobs of a sweep were given and none need repeat; nothing where there is one job alone."""
    given = [frozenset(getattr(record, "overrides", ())) for record in records]
    return frozenset.intersection(*given) if len(given) > 1 else frozenset()


def _sweep_row(members: Sequence[Entry], state: str) -> tuple[str, ...]:
    newest = members[0]
    said = ", ".join(f"{number} {name}" for name, number in Counter(m.state for m in members).most_common())
    where = newest.profile or newest.executor
    return (
        str(newest.group),
        state,
        short_time(members[-1].created),
        count(len(members), "job"),
        where,
        f"sweep: {said}",
    )


def _state_of_all(members: Sequence[Entry]) -> str:
    found = {member.state for member in members}
    return next((state for state in _URGENT if state in found), members[0].state)


def _print_rest(left: Sequence[Sequence[Entry]], total: int) -> None:
    """How much was left out, beside the list and not in it."""
    if left:
        hidden = sum(len(line) for line in left)
        print(paint(f"{hidden:,} more of {total:,} jobs: --limit N or --all", "dim", sys.stderr), file=sys.stderr)
