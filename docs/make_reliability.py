"""Writes docs/reliability.md out of what the suites in tests/reliability have noted.

`python docs/make_reliability.py` takes the figures of the last runs (`.pytest_cache/reliability/`) into
`docs/reliability.json` and writes the page; with `--page` only the page is written anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

TARGET = Path(__file__).with_name("reliability.md")
FIGURES = Path(__file__).with_name("reliability.json")
PARTS = Path(__file__).resolve().parents[1] / ".pytest_cache" / "reliability"

_KEY = ("suite", "backend", "kind", "size")
_HEAD = """\
# What was tried to break it

Made by `python docs/make_reliability.py` from the runs of `tests/reliability`: what was injected, how often, and
what was found. A suite fails where it finds anything, so a number that is not 0 in the last column is an open defect.

* **hostile inputs**: files, arguments and variables that nobody means, through the command line itself. Wanted: a
  known exit code, no traceback, nothing written outside, and one damaged record hides no other job.
* **kills of the client**: `kill -9` of `nemotron` at a random moment of a submission or while it watches. Wanted: the
  job ran once or not at all, its end is found, and the record says what happened.
* **faults of the platform**: a cloud that answers requests with errors, resets, half answers, HTML, late, or with
  values of the wrong kind. Wanted: the right verdict, and exactly one job.
* **canaries**: a secret that a job prints raw and in the forms in which secrets leak. Wanted: no form of it in
  anything that is shown or written.

There are two sizes: CI's (`pytest tests/reliability`) and the full one
(`RELIABILITY=full REQUIRE_LAB=1 pytest --dist load tests/reliability`). Every run prints its seed;
`RELIABILITY_SEED=N` repeats it. What needs a lab part runs with `REQUIRE_LAB=1`."""


def page(rows: Iterable[Mapping[str, Any]]) -> str:
    """The whole page.

    Args:
        rows: one per suite, backend, kind and size: `injected`, `found`, `date`, `commit`, `seed`.
    """
    parts = [_HEAD]
    for size, title in (("full", "The full size"), ("small", "CI's size")):
        chosen = [row for row in rows if row["size"] == size]
        parts += [f"## {title}", _table(chosen) if chosen else "Not run yet."]
    return "\n\n".join(parts) + "\n"


def joined(parts: Iterable[Mapping[str, Any]], known: Iterable[Mapping[str, Any]] = ()) -> list[dict[str, Any]]:
    """The shares of tests added up to rows; a row of an earlier run stays where no newer one is there."""
    rows = {_key(row): dict(row) for row in known}
    fresh: dict[tuple[str, ...], dict[str, Any]] = {}
    for part in parts:
        row = fresh.setdefault(_key(part), {**part, "injected": 0, "found": 0, "seconds": 0})
        for name in ("injected", "found", "seconds"):
            row[name] = round(row[name] + part[name], 1)
        row["date"], row["commit"] = max((row["date"], row["commit"]), (part["date"], part["commit"]))
    return sorted((rows | fresh).values(), key=_key)


def main() -> int:
    """0 when the page has been written, 1 where no suite has been run."""
    known = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.is_file() else []
    if "--page" not in sys.argv:
        parts = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(PARTS.glob("*.json"))]
        if not parts:
            print(f"no figures in {PARTS}: run pytest tests/reliability first", file=sys.stderr)
            return 1
        known = joined(parts, known)
        FIGURES.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    TARGET.write_text(page(known), encoding="utf-8")
    return 0


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in _KEY)


def _table(rows: list[Mapping[str, Any]]) -> str:
    head = "| suite | backend | what | injected | found | date | commit | seed |\n|---|---|---|---:|---:|---|---|---|"
    total = f"| **all** | | | **{_sum(rows, 'injected')}** | **{_sum(rows, 'found')}** | | | |"
    return "\n".join([head, *map(_row, rows), total])


def _row(row: Mapping[str, Any]) -> str:
    cells = [row["suite"], row["backend"], row["kind"], f"{row['injected']:,}", f"{row['found']:,}", row["date"]]
    return f"| {' | '.join(cells)} | {row['commit']} | {row['seed']} |"


def _sum(rows: list[Mapping[str, Any]], name: str) -> str:
    return f"{sum(row[name] for row in rows):,}"


if __name__ == "__main__":
    sys.exit(main())
