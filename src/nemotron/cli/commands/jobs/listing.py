"""`nemotron jobs list`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nemo_runspec.console import note
from nemo_runspec.errors import UserError
from nemo_runspec.text import count, one_line
from nemotron.cli.commands.jobs.output import facts_of, ordered, print_rows
from nemotron.cli.forms import CSV, JSON, TABLE, WIDE, YAML, print_data
from nemotron.cli.job_formatting import age, numbers, print_table, progress_said, short_time, took
from nemotron.cli.job_formatting import as_json as to_json
from nemotron.cli.sweep_summary import sweep_json, sweep_now, sweep_row, tagged
from nemotron.cli.text import paint

if TYPE_CHECKING:
    from nemo_runspec.records import JobRecord, JobStore, Unreadable
    from nemo_runspec.records.index import Entry
    from nemo_runspec.sweeps.overview import Overview
    from nemotron.cli.commands.jobs.selector import Conditions

USUAL = 25
"""Lines without `--limit` and `--all`."""

_HEAD = ("JOB", "STATE", "STARTED", "TIME", "WHERE", "REMARK")
_MEMBER_HEAD = ("JOB", "STATE", "TIME", "WITH")
"""The jobs of one sweep: what tells them apart, and what came of it."""

_SPARE = ("WHERE", "STARTED")
"""Columns that are left out, the first one first, where a narrow terminal has no room for remarks."""


@dataclass(frozen=True)
class _Line:
    """One line of the list: a job, or a sweep of that name with those of its jobs that were asked for."""

    jobs: Sequence[Entry]
    sweep: str | None = None

    @property
    def size(self) -> int:
        """How many jobs it stands for; a sweep without jobs is one thing too."""
        return max(1, len(self.jobs))


def call(
    wanted: Conditions,
    limit: int | None,
    everything: bool,
    sort: str | None,
    form: str,
) -> int:
    """Prints the list."""
    from nemo_runspec.sweeps.overview import Overview

    limit = _limit(limit, everything, form)
    overview = Overview()
    known = overview.everything
    found = wanted.select(overview)
    if sort or form in (WIDE, CSV):
        return _print_jobs(overview, [entry for entry in found if not entry.is_sweep], limit, sort, form)
    if form in (JSON, YAML):
        print_data([_json_of(overview, entry) for entry in found[:limit]], form)
        return 0
    if not found:
        print("No jobs yet." if not known else f"No such jobs; {count(len(known), 'job')} without conditions.")
        return 0
    members = [entry for entry in found if not entry.is_sweep]
    if wanted.group and members:
        _print_members(overview.job_store, members[:limit])
        _print_rest([_Line([entry]) for entry in members], limit)
        return 0
    lines = _each(found) if wanted.states else _blocks(found)
    _print(overview, lines[:limit])
    _print_rest(lines, limit)
    return 0


def _print_jobs(overview: Overview, jobs: Sequence[Entry], limit: int | None, sort: str | None, form: str) -> int:
    """Jobs in an order, or with all that is known of them. A sweep is its jobs."""
    store = overview.job_store
    known = {entry.name: entry for entry in jobs}
    gpus = form in (WIDE, CSV) or "gpu" in (sort or "")
    rows = ordered((facts_of(store.read(entry), store, gpus=gpus) for entry in jobs), sort)
    chosen = [known[row["name"]] for row in rows[:limit]]
    if form == TABLE:
        _print(overview, _each(chosen))
    else:
        print_rows(rows[:limit], form, lambda: [_json_of(overview, entry) for entry in chosen])
    _print_rest([_Line([known[row["name"]]]) for row in rows], limit)
    return 0


def _limit(limit: int | None, everything: bool, form: str) -> int | None:
    if limit is not None and limit < 1:
        raise UserError(f"--limit: {limit} is not a number of lines", remedy="1 or more, or --all")
    if limit is not None and everything:
        raise UserError("--limit and --all contradict each other", remedy="leave one of them out")
    return limit if limit is not None or everything or form not in (TABLE, WIDE) else USUAL


def _each(entries: Sequence[Entry]) -> list[_Line]:
    """Every job and every sweep by itself."""
    return [_Line([], entry.name) if entry.is_sweep else _Line([entry]) for entry in entries]


def _blocks(entries: Sequence[Entry]) -> list[_Line]:
    """Jobs alone, and a sweep with its jobs together where the newest of them stands."""
    blocks: dict[str, list[Entry]] = {}
    for entry in entries:
        key = f"group {entry.group}" if entry.group else entry.name  # a space: no job's name has one
        blocks.setdefault(key, []).append(entry)
    return [_Line([entry for entry in block if not entry.is_sweep], block[0].group) for block in blocks.values()]


def _json_of(overview: Overview, entry: Entry) -> dict[str, Any]:
    if entry.is_sweep:
        return sweep_json(sweep_now(overview, entry.name))
    return to_json(overview.job_store.read(entry), overview.job_store.folder(entry.name))


def _print(overview: Overview, lines: Sequence[_Line]) -> None:
    rows, states = [], []
    for line in lines:
        if line.sweep:
            found = sweep_now(overview, line.sweep)
            states.append(found.status.state)
            rows.append(sweep_row(found))
        else:
            record = overview.job_store.read(line.jobs[0])
            states.append(record.state)
            rows.append(_row(record, overview.job_store))
    print_table(_HEAD, rows, states, _SPARE)


def _print_members(store: JobStore, members: Sequence[Entry]) -> None:
    records = [store.read(entry) for entry in members]
    common = _common_overrides(records)
    rows = [_member_row(record, common, store) for record in records]
    print_table(_MEMBER_HEAD, rows, [record.state for record in records])


def _row(record: JobRecord | Unreadable, store: JobStore) -> tuple[str, ...]:
    from nemo_runspec.records import Unreadable

    if isinstance(record, Unreadable):
        return (record.name, record.state, short_time(record.created), "", "", _unreadable(record))
    where = record.profile or record.executor
    own = " ".join(record.overrides) if record.group else ""
    retried = f"retry of {record.retry_of}" if record.retry_of else ""
    told = record.why or retried or record.note
    remark = _joined(tagged(record.tags), own, progress_said(record, store.folder(record.name)), told)
    return (record.name, _state(record, store), short_time(record.created), took(record), where, remark)


def _member_row(record: JobRecord | Unreadable, common: frozenset[str], store: JobStore) -> tuple[str, ...]:
    from nemo_runspec.records import Unreadable

    if isinstance(record, Unreadable):
        return (record.name, record.state, "", _unreadable(record))
    own = " ".join(text for text in record.overrides if text not in common)
    return (
        record.name,
        _state(record, store),
        took(record),
        _joined(
            own,
            numbers(record.metrics),
            progress_said(record, store.folder(record.name)),
            record.why,
        ),
    )


def _state(record: JobRecord, store: JobStore) -> str:
    """The state; of a failure the exit code too, and of a job elsewhere how old that is."""
    code = f" {record.exit_code}" if record.state == "failed" and record.exit_code is not None else ""
    told = age(record, store.folder(record.name))
    return f"{record.state}{code}{f' ({told})' if told else ''}"


def _joined(*texts: str) -> str:
    return one_line("; ".join(filter(None, texts)))


def _unreadable(record: Unreadable) -> str:
    return one_line(f"its record cannot be read: {record.problem}")


def _common_overrides(records: Iterable[JobRecord | Unreadable]) -> frozenset[str]:
    """What all jobs of a sweep were given and none need repeat; nothing where there is one job alone."""
    from nemo_runspec.records import Unreadable

    given = [frozenset(() if isinstance(record, Unreadable) else record.overrides) for record in records]
    return frozenset.intersection(*given) if len(given) > 1 else frozenset()


def _print_rest(lines: Sequence[_Line], limit: int | None) -> None:
    """How much was left out, beside the list and not in it."""
    left = lines[len(lines) if limit is None else limit :]
    if left:
        hidden, total = (sum(line.size for line in some) for some in (left, lines))
        note(paint(f"{hidden:,} more of {total:,} jobs: --limit N or --all", "dim", sys.stderr))
