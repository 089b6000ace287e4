"""`nemotron jobs cost`: what jobs have used, together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from nemo_runspec.console import note
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.text import count
from nemotron.cli.commands.jobs.output import facts_of, hours_text
from nemotron.cli.forms import CSV, TABLE, WIDE, as_csv, print_data
from nemotron.cli.tables import Cell, Styled
from nemotron.cli.text import table

if TYPE_CHECKING:
    from nemotron.cli.commands.jobs.selector import Conditions


def _week(row: dict[str, Any]) -> str:
    return datetime.fromisoformat(row["created"]).astimezone().strftime("%G-W%V")


BY: dict[str, Callable[[dict[str, Any]], str]] = {
    "recipe": lambda row: str(row["recipe"]),
    "profile": lambda row: str(row["profile"]),
    "week": _week,
    "state": lambda row: str(row["state"]),
}
"""What jobs may be counted by, and how each is found. Weeks are those of ISO 8601, in the terminal's own zone."""

USUAL = "recipe"


def call(wanted: Conditions, by: str | None, form: str) -> int:
    """Prints GPU-hours, and hours, of the jobs that meet the conditions.

    Raises:
        UserError: `by` is nothing that jobs are counted by.
    """
    from nemo_runspec.sweeps.overview import Overview

    key = by or USUAL
    if key not in BY:
        raise UserError(
            f"--by: jobs are not counted by '{key}'", remedy=did_you_mean(key, BY) or f"by: {', '.join(BY)}"
        )
    overview = Overview()
    entries = [entry for entry in wanted.select(overview) if not entry.is_sweep]
    facts = [facts_of(overview.job_store.read(entry), overview.job_store) for entry in entries]
    rows = _counted([row for row in facts if "recipe" in row], key)
    if form == CSV:
        print(as_csv(rows), end="")
    elif form in (TABLE, WIDE):
        _print(rows, key)
    else:
        print_data(rows, form)
    return 0


def complete_by(_ctx: Any, _param: Any, incomplete: str) -> list[str]:
    """What jobs may be counted by."""
    return [name for name in BY if name.startswith(incomplete)]


def _counted(facts: Sequence[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """A row for each value of the key: the largest first, weeks in their order."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in facts:
        groups.setdefault(BY[key](row), []).append(row)
    rows = [{key: name, **_sums(group)} for name, group in groups.items()]
    rows.sort(key=lambda row: (str(row[key]),) if key == "week" else (-row["gpu_hours"], -row["hours"], str(row[key])))
    return rows


def _sums(group: Sequence[dict[str, Any]]) -> dict[str, Any]:
    known = [row for row in group if row["gpu_hours"] is not None]
    failed = [row for row in known if row["state"] in ("failed", "lost", "cancelled")]
    return {
        "jobs": len(group),
        "hours": sum(row["seconds"] for row in group) / 3600,
        "gpu_hours": sum(row["gpu_hours"] for row in known),
        "gpu_hours_without_success": sum(row["gpu_hours"] for row in failed),
        "jobs_of_unknown_gpus": len(group) - len(known),
    }


def _print(rows: Sequence[dict[str, Any]], key: str) -> None:
    if not rows:
        print("No such jobs.")
        return
    head: list[Cell] = [Styled(name, "bold") for name in (key.upper(), "JOBS", "HOURS", "GPU-HOURS", "WITHOUT SUCCESS")]
    total = {name: sum(row[name] for row in rows) for name in rows[0] if name != key}
    lines = [_cells(str(row[key]), row) for row in rows]
    last = [Styled(str(cell), "bold") for cell in _cells("all", total)]
    print("\n".join(table([head, *lines, *([last] if len(rows) > 1 else [])], indent="")))
    if total["jobs_of_unknown_gpus"]:
        note(f"the GPUs of {count(total['jobs_of_unknown_gpus'], 'job')} are not known: their hours are counted alone")


def _cells(name: str, row: dict[str, Any]) -> list[str]:
    numbers = (row["hours"], row["gpu_hours"], row["gpu_hours_without_success"])
    return [name, f"{row['jobs']:,}", *(hours_text(number) for number in numbers)]
