"""Formats jobs: columns, colours and times of a table, as much as a terminal has room for; and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from nemo_runspec.duration import span
from nemo_runspec.text import first_words, one_line
from nemotron.cli.tables import Cell, Styled, table_width
from nemotron.cli.text import paint, short_moment, table, terminal_width

if TYPE_CHECKING:
    from pathlib import Path

    from nemo_runspec.records import JobRecord, Unreadable

COLOURS = {
    "succeeded": "green", "failed": "red", "lost": "red", "cancelled": "yellow", "running": "cyan", "unknown": "yellow",
}  # fmt: skip
_LEAST_NOTE = 12
"""Characters a last column needs to be worth showing."""

_GOOD_NOTE = 40
"""Characters of a last column for which less important columns are left out, if it has as many."""

_SEPARATOR = 2

_NOW = 30.0
"""Seconds for which what a platform has said is of now."""


def as_json(record: JobRecord | Unreadable, folder: Path | None = None) -> dict[str, Any]:
    """A job as `--json` shows it. `folder`: the job's, to be looked into for how far it is."""
    from nemo_runspec.records import Unreadable
    from nemo_runspec.records.codec import to_dict

    if isinstance(record, Unreadable):
        damaged = {"name": record.name, "state": record.state, "created": record.created, "problem": record.problem}
        return {"kind": "job", **damaged}
    return {
        "kind": "job",
        **to_dict(record),
        "state": record.state,
        "created": record.created,
        "over": record.over,
        **_progress(record, folder),
    }


def _progress(record: JobRecord, folder: Path | None) -> dict[str, Any]:
    from nemo_runspec.records.progress import known_progress

    found = known_progress(record, folder) if folder else None
    return {"progress": found.to_json()} if found else {}


def print_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], states: Iterable[str], spare: Sequence[str] = ()
) -> None:
    """Prints a table, see `table_lines`."""
    print("\n".join(table_lines(head, rows, states, spare)))


def table_lines(
    head: Sequence[str], rows: Sequence[Sequence[str]], states: Iterable[str], spare: Sequence[str] = ()
) -> list[str]:
    """A table with a bold head; each row's STATE, its second cell, in the colour of the state.

    Args:
        spare: columns to be left out, the first one first, where the last column has no room beside them.
    """
    first, *others = fitted([head, *rows], spare)
    shown = [_with_colour(row, state) for row, state in zip(others, states, strict=True)]
    return table([[Styled(cell, "bold") for cell in first], *shown], indent="")


def _with_colour(row: Sequence[str], state: str) -> list[Cell]:
    if state not in COLOURS or len(row) < 2:
        return list(row)
    return [row[0], Styled(row[1], COLOURS[state]), *row[2:]]


def fitted(rows: Sequence[Sequence[str]], spare: Sequence[str] = ()) -> Sequence[Sequence[str]]:
    """The rows on one line each; the last column, a remark, is cut or left out where the terminal has no room."""
    width = terminal_width()
    if width is None or table_width(rows) <= width:
        return rows
    wanted = min(max(len(row[-1]) for row in rows), _GOOD_NOTE)
    for name in spare:
        if _room(rows, width) < wanted:
            column = rows[0].index(name)
            rows = [[*row[:column], *row[column + 1 :]] for row in rows]
    room = _room(rows, width)
    if room < _LEAST_NOTE:
        return [row[:-1] for row in rows]
    return [[*row[:-1], first_words(row[-1], room)] for row in rows]


def _room(rows: Sequence[Sequence[str]], width: int) -> int:
    """Characters the last column has."""
    return width - table_width([row[:-1] for row in rows]) - _SEPARATOR


def coloured(text: str, state: str) -> str:
    """The text with the first mention of the state in its colour."""
    return text.replace(state, paint(state, COLOURS[state]), 1) if state in COLOURS else text


def local_time(time: str) -> str:
    """A stored time in the terminal's own zone, to the second."""
    return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M:%S") if time else ""


def short_time(time: str) -> str:
    """A stored time, as short as `short_moment` has it; '' for none."""
    return short_moment(datetime.fromisoformat(time)) if time else ""


def ago(time: str) -> str:
    """How long ago a stored time was, in its largest unit: `just now`, `3 min ago`, `2 d ago`; '' for no time."""
    if not time:
        return ""
    passed = (datetime.now(timezone.utc) - datetime.fromisoformat(time)).total_seconds()
    return "just now" if passed < _NOW else f"{' '.join(span(passed).split()[:2])} ago"


def age(record: JobRecord, folder: Path) -> str:
    """How old what is written of a job elsewhere is, as `ago` has it; '' where it is over, of now or of this machine.

    Args:
        folder: the job's own.
    """
    from nemo_runspec.records.last_poll import known_since

    if record.over or not record.handle or not record.states:
        return ""
    told = ago(known_since(record, folder) or record.states[-1].time)
    return "" if told == "just now" else told


def took(record: JobRecord, fresh: float | None = None) -> str:
    """How long the job ran, or has been running: what its platform said of that, and the time since.

    Args:
        fresh: seconds that it has been running, as its platform has said just now. What is on record was perhaps
            written by another machine's clock.
    """
    if record.elapsed is not None or record.state != "running":
        return seconds(record.elapsed)
    if fresh is not None:
        return seconds(fresh)
    told, asked = record.facts.elapsed, record.facts.asked
    since, before = record.running_since, 0.0
    if told is not None and asked:
        since, before = datetime.fromisoformat(asked), told
    return "" if since is None else seconds(before + max(0.0, (datetime.now(timezone.utc) - since).total_seconds()))


def seconds(elapsed: float | None) -> str:
    """`4.2 s`, `12:04`, `3:25:01`."""
    if elapsed is None:
        return ""
    if elapsed < 60:
        return f"{elapsed:.1f} s"
    minutes, rest = divmod(round(elapsed), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def progress_said(record: JobRecord, folder: Path) -> str:
    """`15 %, ~3 h 5 min left, loss 1.52, step 150/1,000`, as far as it is known here; what matters less may be cut."""
    from nemo_runspec.records.progress import known_progress

    progress = known_progress(record, folder)
    if progress is None:
        return ""
    step, total, left = progress.step, progress.total, progress.left
    told = (
        f"{100 * step / total:.0f} %" if step is not None and total else "",
        "" if left is None else f"~{span(left)} left",
        "" if progress.loss is None else f"loss {progress.loss:.4g}",
        "" if step is None else f"step {step:,.0f}{f'/{total:,.0f}' if total else ''}",
    )
    return ", ".join(filter(None, told))


def numbers(metrics: Mapping[str, float]) -> str:
    """`loss=1.52  val_loss=1.7`."""
    return "  ".join(f"{one_line(name)}={value:g}" for name, value in metrics.items())
