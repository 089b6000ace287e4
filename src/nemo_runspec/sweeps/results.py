"""Files of a sweep beside its record: `results.csv` with every metric, `results.png` to look at."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from nemo_runspec import paths
from nemo_runspec.sweeps.console import SweepConsole
from nemo_runspec.sweeps.model import PIPELINE, Sweep
from nemo_runspec.sweeps.table import Table, make_table

CSV, PNG = "results.csv", "results.png"
_COLUMNS = ("index", "job", "state", "exit_code", "seconds", "best")


def write_results(sweep: Sweep, table: Table, folder: Path) -> None:
    """Writes both files; no picture where there is nothing to draw, `table.why_no_picture` says why.

    Raises:
        OSError: one of them cannot be written.
    """
    from nemo_runspec.sweeps.figure import draw

    paths.private_dir(folder)
    paths.write_private(folder / CSV, as_csv(table))
    draw(table, folder / PNG, title=f"{sweep.recipe}   {sweep.group}")


def conclude(sweep: Sweep, folder: Path, console: SweepConsole) -> None:
    """Compares the members of a sweep that has ended: shows that, leaves a CSV and a picture.

    The stages of a pipeline are shown; there is nothing to compare.
    """
    compared = make_table(sweep)
    console.show_results(sweep, compared)
    if sweep.kind == PIPELINE:
        return
    try:
        write_results(sweep, compared, folder)
    except OSError as error:
        console.say(f"the results cannot be written: {error.strerror}: {error.filename}")
    console.show_files(sweep, compared, folder)


def discard_results(folder: Path) -> None:
    """Takes both files away: they are no longer what the sweep is. Raises `OSError` where that cannot be done."""
    for name in (CSV, PNG):
        (folder / name).unlink(missing_ok=True)


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
