"""Writes docs/behaviours.md out of the results of a run of tests/behaviour.

`python docs/make_behaviours.py [RESULTS]`; a run leaves them in `.pytest_cache/behaviours.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).with_name("behaviours.md")
RESULTS = Path(__file__).resolve().parents[1] / ".pytest_cache" / "behaviours.json"
_SIGNS = {"passed": "passed", "failed": "**failed**", "not run": "not run here"}


def page(table: dict[str, Any]) -> str:
    """The whole page.

    Args:
        table: `rigs`, names; `sections` of a `title` and `rows`, each a `sentence` and `cells` by rig: `passed`,
            `failed`, `not run`, or `{"not supported": why}`.
    """
    notes: list[str] = []
    parts = [
        "# What every backend does",
        "Made by `python docs/make_behaviours.py` from the results of `tests/behaviour`: the same tests, run on every "
        "backend from the outside. *passed*: seen in the run that made this page; *not run here*: that run had no such "
        "backend; a number: not supported, and below the table is why.",
    ]
    for section in table["sections"]:
        parts += [f"## {section['title'].rstrip('.')}", _section(section["rows"], table["rigs"], notes)]
    if notes:
        parts += ["## Not supported", "\n".join(f"{number}. {why}" for number, why in enumerate(notes, 1))]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    """0 when the page has been written, 1 where there are no results."""
    results = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    if not results.is_file():
        print(f"no results in {results}: run pytest tests/behaviour first", file=sys.stderr)
        return 1
    TARGET.write_text(page(json.loads(results.read_text(encoding="utf-8"))), encoding="utf-8")
    return 0


def _section(rows: list[dict[str, Any]], rigs: list[str], notes: list[str]) -> str:
    head = f"| behaviour | {' | '.join(rigs)} |\n|---|{'---|' * len(rigs)}"
    return "\n".join([head, *(_row(row, rigs, notes) for row in rows)])


def _row(row: dict[str, Any], rigs: list[str], notes: list[str]) -> str:
    sentence = row["sentence"].replace("|", "\\|")
    return f"| {sentence} | {' | '.join(_cell(row['cells'][rig], rig, notes) for rig in rigs)} |"


def _cell(cell: Any, rig: str, notes: list[str]) -> str:
    if isinstance(cell, str):
        return _SIGNS[cell]
    note = f"{rig}: {cell['not supported']}"
    if note not in notes:
        notes.append(note)
    return f"[{notes.index(note) + 1}](#not-supported)"


if __name__ == "__main__":
    sys.exit(main())
