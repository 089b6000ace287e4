"""What stays of a sweep beside its record: `results.csv` with every metric, `results.png` to look at."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from nemo_runspec import paths
from nemo_runspec.sweeps.model import Sweep
from nemo_runspec.sweeps.table import Table

_COLUMNS = ("index", "job", "state", "exit_code", "seconds", "best")


@dataclass(frozen=True, slots=True)
class Results:
    """Where they lie; None for a picture that there was nothing to draw in."""

    csv: Path
    png: Path | None


def write_results(sweep: Sweep, table: Table, folder: Path) -> Results:
    """Writes both files.

    Raises:
        OSError: one of them cannot be written.
    """
    from nemo_runspec.sweeps.figure import draw

    paths.private_dir(folder)
    written = folder / "results.csv"
    paths.write_private(written, as_csv(table))
    picture = folder / "results.png"
    drawn = draw(table, picture, title=f"{sweep.recipe}   {sweep.group}")
    return Results(written, picture if drawn else None)


def as_csv(table: Table) -> str:
    """One line for each member, in the table's order, with whole keys and numbers in full."""
    metrics = sorted({name for row in table.rows for name in row.member.metrics})
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow([*_COLUMNS, *table.keys, *metrics])
    for row in table.rows:
        member = row.member
        seconds = member.record.elapsed if member.record else None
        own = [member.index, member.name, member.state, member.code, seconds, "yes" if row.best else ""]
        lines.writerow([*own, *row.values, *(member.metrics.get(name) for name in metrics)])
    return text.getvalue()
