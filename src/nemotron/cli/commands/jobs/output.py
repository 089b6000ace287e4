"""Jobs in the forms of `-o`, and `--sort`: one row for each job, whatever it is shown as."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.text import one_line
from nemotron.cli.click import Parameter
from nemotron.cli.forms import CSV, WIDE, as_csv, print_data
from nemotron.cli.job_formatting import COLOURS, seconds, short_time
from nemotron.cli.parameters import option
from nemotron.cli.tables import Cell, Styled, has_room
from nemotron.cli.text import table, terminal_width

if TYPE_CHECKING:
    from nemo_runspec.records import JobRecord, JobStore, Unreadable

_WIDE = {
    "JOB": "name", "STATE": "state", "STARTED": "created", "TIME": "seconds", "RECIPE": "recipe", "WHERE": "profile",
    "ID": "id", "NODES": "nodes", "GPUS": "gpus", "GPU-HOURS": "gpu_hours", "REMARK": "reason",
}  # fmt: skip
"""Columns of `-o wide`, and what each shows."""

_ALWAYS = ("JOB", "STATE", "GPUS", "GPU-HOURS")

_LARGEST_FIRST = frozenset({"seconds", "gpus", "gpu_hours", "created"})
_SPELLINGS = {"time": "seconds", "started": "created", "gpu-hours": "gpu_hours", "where": "profile", "job": "name"}
"""The heads of columns, as keys of `--sort`."""

METRICS = "metrics."
"""What a metric's name stands behind among the facts of a job."""


def sort_option() -> Parameter:
    """The parser parameter of `--sort`."""
    help_text = "By started, time, gpu-hours, name, state, recipe, profile or a metric; -KEY for the other way round."
    return option("--sort", help_text, value="KEY", complete=_complete_keys)


def facts_of(record: JobRecord | Unreadable, store: JobStore, *, gpus: bool = True) -> dict[str, Any]:
    """A job in flat facts: what a line of a CSV file holds, and what jobs are sorted by.

    Args:
        gpus: whether its plan is read for them.
    """
    from nemo_runspec.records import Unreadable

    if isinstance(record, Unreadable):
        return {"name": record.name, "state": record.state, "created": record.created, "reason": record.problem}
    found: dict[str, Any] = {
        "name": record.name,
        "state": record.state,
        "exit_code": record.exit_code,
        "recipe": record.recipe,
        "config": record.config,
        "profile": record.profile or record.executor,
        "executor": record.executor,
        "id": record.id,
        "created": record.created,
        "changed": record.changed,
        "sweep": record.group,
        "nodes": record.facts.nodes,
        "tags": " ".join(record.tags),
        "note": record.note,
        "reason": record.why,
        **_used(record, store, gpus=gpus),
    }
    return {**found, **{f"{METRICS}{name}": value for name, value in record.metrics.items()}}


def _used(record: JobRecord, store: JobStore, *, gpus: bool) -> dict[str, Any]:
    from nemo_runspec.planning.gpu_time import gpus_of, run_seconds

    ran = run_seconds(record)
    number = gpus_of(store.folder(record.name)) if gpus else None
    return {"seconds": ran, "gpus": number, "gpu_hours": None if number is None else number * ran / 3600}


def print_rows(rows: Sequence[Mapping[str, Any]], form: str, data: Callable[[], Any]) -> None:
    """Prints jobs in another form than their usual table.

    Args:
        data: makes what JSON and YAML hold.
    """
    if form == WIDE:
        print("\n".join(wide_table(rows)))
    elif form == CSV:
        print(as_csv(rows), end="")
    else:
        print_data(data(), form)


def wide_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Every column that says something; where a terminal has no room for them, one below the other for each job."""
    shown = {head: [_cell(key, row) for row in rows] for head, key in _WIDE.items()}
    shown = {head: cells for head, cells in shown.items() if head in _ALWAYS or any(cells)}
    lines = list(zip(*shown.values(), strict=True))
    if has_room([list(shown), *lines], terminal_width()):
        return table([[Styled(head, "bold") for head in shown], *lines], indent="")
    blocks = ([(head, cell) for head, cell in zip(shown, line, strict=True) if cell] for line in lines)
    return [row for block in blocks for row in [*table(block, indent=""), ""]][:-1]


def _cell(key: str, row: Mapping[str, Any]) -> Cell:
    value = row.get(key)
    if value is None or value == "":
        return ""
    if key == "state":
        code = f" {row['exit_code']}" if value == "failed" and row.get("exit_code") is not None else ""
        return Styled(f"{value}{code}", COLOURS[value]) if value in COLOURS else f"{value}{code}"
    shown = {"created": short_time, "seconds": lambda s: seconds(s) if s else "", "gpu_hours": hours_text}.get(key)
    return one_line(str(shown(value) if shown else value))


def hours_text(hours: float | None) -> str:
    """GPU-hours in a table: two digits behind the point where there are few."""
    if hours is None:
        return ""
    return f"{hours:,.1f}" if hours >= 10 else f"{hours:.2f}"


def ordered(rows: Iterable[Mapping[str, Any]], key: str | None) -> list[Mapping[str, Any]]:
    """The rows by a fact or a metric, those without it last; as they come where no key is given.

    Raises:
        UserError: no row has such a thing.
    """
    rows = list(rows)
    if key is None or not rows:
        return rows
    name = _fact_named(key.removeprefix("-"), rows)
    first = (name in _LARGEST_FIRST) is not key.startswith("-")
    known = [row for row in rows if row.get(name) not in (None, "")]
    known.sort(key=lambda row: _comparable(row[name]), reverse=first)
    return [*known, *(row for row in rows if row.get(name) in (None, ""))]


def _comparable(value: Any) -> tuple[int, float, str]:
    if isinstance(value, (int, float)):
        return (1, 0.0, "") if value != value else (0, float(value), "")
    return (0, 0.0, str(value))


def _fact_named(key: str, rows: Sequence[Mapping[str, Any]]) -> str:
    known = dict.fromkeys(name for row in rows for name in row)
    for name in (_SPELLINGS.get(key, key), f"{METRICS}{key}"):
        if name in known:
            return name
    words = [*_SPELLINGS, *(name.removeprefix(METRICS) for name in known)]
    raise UserError(f"--sort: no job has '{key}'", remedy=did_you_mean(key, words) or f"there are: {', '.join(words)}")


def _complete_keys(_ctx: Any, _param: Any, incomplete: str) -> list[str]:
    words = dict.fromkeys([*_SPELLINGS, "state", "recipe", "name", "profile", "exit_code"])
    return [word for word in words if word.startswith(incomplete)]
