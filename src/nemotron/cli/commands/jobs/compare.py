"""`nemotron jobs compare A B …`: what came of jobs, beside the values in which they differ."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nemo_runspec.errors import UserError
from nemo_runspec.text import one_line
from nemotron.cli.commands.jobs.output import METRICS, facts_of, hours_text
from nemotron.cli.forms import CSV, TABLE, WIDE, as_csv, print_data
from nemotron.cli.job_formatting import COLOURS, seconds
from nemotron.cli.tables import Cell, Styled, text_of
from nemotron.cli.text import paint, table, terminal_width

if TYPE_CHECKING:
    from nemo_runspec.records import JobStore

_RESULTS = {"state": "state", "exit_code": "exit code", "seconds": "time", "gpu_hours": "GPU-hours"}


def call(jobs: Sequence[str], form: str) -> int:
    """Prints jobs side by side. A sweep stands for all of its jobs.

    Raises:
        UserError: fewer than two jobs are meant, or the plan of one cannot be read.
    """
    from nemo_runspec.planning.diff import differing
    from nemo_runspec.sweeps.overview import Overview

    overview = Overview()
    entries = overview.with_members(overview.meant(jobs))
    names = [entry.name for entry in entries]
    if len(names) < 2:
        raise UserError("one job has nothing to be compared with", remedy="name two or more: nemotron jobs compare A B")
    store = overview.job_store
    facts = [facts_of(store.read(entry), store) for entry in entries]
    values = differing([_plan(store, name) for name in names])
    results = _results(facts)
    if form in (TABLE, WIDE):
        _print(names, facts, results, values)
        return 0
    rows = [_flat(name, number, results, values) for number, name in enumerate(names)]
    print(as_csv(rows), end="") if form == CSV else print_data(rows, form)
    return 0


def _plan(store: JobStore, name: str) -> Any:
    from nemo_runspec.planning.codec import load_plan
    from nemo_runspec.planning.gpu_time import PLAN

    return load_plan(store.folder(name) / PLAN)


def _results(facts: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    metrics = sorted({name for row in facts for name in row if name.startswith(METRICS)})
    return {key: [row.get(key) for row in facts] for key in (*_RESULTS, *metrics)}


def _flat(name: str, number: int, *tables: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    return {"name": name, **{key: _plain(values[number]) for rows in tables for key, values in rows.items()}}


def _plain(value: Any) -> Any:
    """A number as it is, all else as text."""
    return value if value is None or isinstance(value, (int, float)) else _text(value)


def _print(
    names: Sequence[str],
    facts: Sequence[Mapping[str, Any]],
    results: Mapping[str, Sequence[Any]],
    values: Mapping[str, Sequence[Any]],
) -> None:
    rows = [[_RESULTS.get(key, key.removeprefix(METRICS)), *_shown(key, found)] for key, found in results.items()]
    rows += [[key, *map(_text, found)] for key, found in values.items()]
    head: list[Cell] = ["", *(Styled(name, "bold") for name in _heads(names, rows))]
    print("\n".join(table([head, *rows], indent="")))
    if not values:
        print(paint("Their plans are the same but for the names.", "dim"))


def _heads(names: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Sequence[str]:
    """The jobs' names, of which the last parts alone mean them too; those where a terminal has no room for more."""
    parts = [name.rsplit("-", 1)[-1] for name in names]
    width = terminal_width()
    key = max(len(text_of(row[0])) for row in rows)
    fits = width is None or key + sum(len(name) + 2 for name in names) <= width
    return names if fits or len(set(parts)) < len(parts) else parts


def _shown(key: str, found: Sequence[Any]) -> list[Cell]:
    if key == "state":
        return [Styled(state, COLOURS[state]) if state in COLOURS else str(state) for state in found]
    if key == "seconds":
        return [seconds(value) if value else "" for value in found]
    return [hours_text(value) if key == "gpu_hours" else _number(value) for value in found]


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.6g}"


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return one_line(shlex.join(value))
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
