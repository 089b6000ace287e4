"""The end of a sweep, and the same again later: the table, its best run, where the files are."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nemo_runspec.records.record import code_and_why
from nemo_runspec.source import display_path
from nemo_runspec.sweeps.model import PIPELINE, Member, Sweep
from nemo_runspec.sweeps.results import CSV, PNG, as_csv
from nemo_runspec.sweeps.status import Status, status_of
from nemo_runspec.sweeps.store import SweepStore
from nemo_runspec.sweeps.table import Table, TableRow, make_table, number, short_names, short_value, why_no_picture
from nemo_runspec.text import clean, count, one_line
from nemotron.cli.forms import CSV as CSV_FORM
from nemotron.cli.forms import JSON, TABLE, YAML, print_data
from nemotron.cli.job_formatting import coloured, took
from nemotron.cli.pipeline_report import as_json as pipeline_as_json
from nemotron.cli.pipeline_report import stage_lines, stages_as_csv
from nemotron.cli.sweep_display import COLOURS, first_line
from nemotron.cli.tables import Cell, Styled, table_width
from nemotron.cli.text import paint, table, terminal_width

_CAUSES = 5
_CELL = 40
"""Characters of a key, a value or a metric's name in the table; the CSV has all of them."""


def print_results(sweep: Sweep, compared: Table) -> None:
    """Prints the table of a sweep that has ended."""
    if sweep.kind == PIPELINE:
        print("\n" + "\n".join(stage_lines(sweep)))
        return
    print("\n" + "\n".join(_lines(sweep, compared)))


def print_files(sweep: Sweep, compared: Table, folder: Path) -> None:
    """Prints where the results of a sweep that has ended are."""
    print("\n".join(_files(sweep, compared, folder)), flush=True)


def print_group(group: str, *, sort: str | None = None, form: str = TABLE) -> int:
    """Prints a sweep as it is now, running or ended.

    Args:
        group: its name, or the beginning of that.
        sort: a metric, an override's key, `time` or `index`.
        form: one of `-o`.

    Raises:
        UserError: there is no such sweep, it cannot be read, or it has nothing called `sort`.
    """
    from nemo_runspec.sweeps.array_end import look_again

    store = SweepStore()
    sweep = look_again(store, store.get(group), lambda line: print(line, file=sys.stderr))
    compared = make_table(sweep, sort)
    status = status_of(sweep)
    if sweep.kind == PIPELINE:
        return _print_pipeline(sweep, status, form)
    if form == CSV_FORM:
        print(as_csv(compared), end="")
        return 0
    if form in (JSON, YAML):
        print_data(_as_json(sweep, status, compared), form)
        return 0
    print(f"{paint(sweep.group, 'bold')}   {sweep.recipe}, {_how_it_is(status)}")
    print("\n".join([*_lines(sweep, compared), *_files(sweep, compared, store.folder(sweep.group))]))
    return 0


def _print_pipeline(sweep: Sweep, status: Status, form: str) -> int:
    if form == CSV_FORM:
        print(stages_as_csv(sweep), end="")
    elif form in (JSON, YAML):
        print_data(pipeline_as_json(sweep, status), form)
    else:
        print(f"{paint(sweep.group, 'bold')}   pipeline {sweep.recipe}, {_how_it_is(status)}")
        print("\n".join(stage_lines(sweep)))
    return 0


def _how_it_is(status: Status) -> str:
    return coloured(status.state, status.state) + one_line(code_and_why(status.exit_code or None, status.reason))


def _lines(sweep: Sweep, compared: Table) -> list[str]:
    """The table and what there is to say about it."""
    lines = []
    if compared.fixed:
        fixed = "  ".join(f"{key}={value}" for key, value in compared.fixed.items())
        lines.append(paint(f"the same in all: {clean(fixed)}", "dim"))
    if compared.rows:
        lines += [*_table(compared), ""]
    lines.append(_summary(sweep, compared))
    if compared.missing_metric:
        lines.append(
            paint(f"no run has told '{one_line(compared.missing_metric)}'; {_what_there_is(compared)}", "yellow")
        )
    return lines + _failures(sweep.members)


def _what_there_is(compared: Table) -> str:
    found = sorted({name for row in compared.rows for name in row.member.metrics})
    return f"there are: {', '.join(map(one_line, found))}" if found else "none has told any metric"


def _table(compared: Table) -> list[str]:
    names = short_names(compared.keys)
    metrics = list(compared.metrics)
    room = terminal_width()
    while True:
        head = ["", "#", *map(_cell, names.values()), *map(_cell, metrics), "STATE", "TIME", "JOB"]
        rows = [_row(row, metrics) for row in compared.rows]
        if room is None or len(metrics) < 2 or table_width([head, *rows]) <= room:
            break
        metrics.pop()  # all of them are in the CSV
    painted = [_painted(cells, row) for cells, row in zip(rows, compared.rows, strict=True)]
    return table([[Styled(cell, "bold") for cell in head], *painted], indent="")


def _row(row: TableRow, metrics: Sequence[str]) -> list[str]:
    member = row.member
    values = [_cell(short_value(value)) for value in row.values]
    figures = [number(member.metrics.get(name)) for name in metrics]
    job = member.name if member.started else ""
    time = took(member.record) if member.record else ""
    return ["*" if row.best else "", str(member.index), *values, *figures, member.state, time, job]


def _cell(text: str) -> str:
    """A text of the user's in one line, and no longer than a column may be."""
    text = one_line(text)
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"


def _painted(cells: Sequence[str], row: TableRow) -> list[Cell]:
    if row.best:
        return [Styled(cell, "green") for cell in cells]
    *before, state, time, job = cells
    return [*before, Styled(state, COLOURS.get(state, "dim")), time, job]


def _summary(sweep: Sweep, compared: Table) -> str:
    if not sweep.members:
        return "no run was started"
    states = Counter(member.state for member in sweep.members)
    counted = ", ".join(f"{number} {state}" for state, number in sorted(states.items(), key=lambda pair: -pair[1]))
    text = f"{count(len(sweep.members), 'run')}: {counted}"
    best = compared.best
    if best is None:
        return text
    found = " ".join(f"{key}={value}" for key, value in zip(compared.keys, best.values, strict=True))
    direction = "highest" if compared.maximize else "lowest"
    return (
        f"{text}. * {direction} {compared.metric} {number(best.member.metrics[str(compared.metric)])}: {clean(found)}"
    )


def _failures(members: Sequence[Member]) -> list[str]:
    failed = [member for member in members if member.state == "failed"]
    lines = []
    for member in failed[:_CAUSES]:
        lines.append(paint(f"  #{member.index} failed: {clean(first_line(member.cause))}", "red"))
        if member.log.exists():
            lines.append(f"     log: {display_path(member.log)}")
    left = len(failed) - _CAUSES
    return lines + ([f"  and {left} more, see: nemotron jobs list"] if left > 0 else [])


def _files(sweep: Sweep, compared: Table, folder: Path) -> list[str]:
    found = [(kind, folder / name) for kind, name in (("table", CSV), ("picture", PNG)) if (folder / name).exists()]
    lines = [f"  {kind:8} {display_path(file)}" for kind, file in found]
    why = why_no_picture(compared)
    if sweep.ended and why and compared.rows:
        lines.append(f"  {'picture':8} none: {one_line(why)}")
    return [*lines, f"  {'again':8} nemotron jobs show {sweep.group} --sort METRIC"]


def _as_json(sweep: Sweep, status: Status, compared: Table) -> dict[str, Any]:
    return {
        "kind": "sweep",
        "group": sweep.group,
        "state": status.state,
        "reason": status.reason,
        "exit_code": status.exit_code,
        "over": status.over,
        "recipe": sweep.recipe,
        "argv": list(sweep.argv),
        "created": sweep.created,
        "ended": sweep.ended,
        "sweeper": sweep.sweeper,
        "metric": compared.missing_metric or compared.metric,
        "maximize": sweep.options.maximize,
        "members": [_row_as_json(row) for row in compared.rows],
    }


def _row_as_json(row: TableRow) -> dict[str, Any]:
    member = row.member
    return {
        "index": member.index,
        "job": member.name,
        "state": member.state,
        "exit_code": member.code,
        "elapsed": member.record.elapsed if member.record else None,
        "overrides": dict(member.overrides),
        "metrics": dict(member.metrics),
        "best": row.best,
    }
