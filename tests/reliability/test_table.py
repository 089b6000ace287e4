"""The table in docs/reliability.md is that of docs/reliability.json, and figures of several tests add up."""

from __future__ import annotations

import json
import runpy

import pytest
from support import REPOSITORY

from reliability import tally

DOCS = REPOSITORY / "docs"
made = runpy.run_path(str(DOCS / "make_reliability.py"))
joined, page = made["joined"], made["page"]

PART = {
    "suite": "kills", "backend": "local", "kind": "kill -9", "size": "small", "injected": 3, "found": 0, "seed": 13,
    "seconds": 1.5, "date": "2026-01-02", "commit": "abc",
}  # fmt: skip


def test_the_committed_page_is_made_of_the_committed_figures():
    figures = json.loads((DOCS / "reliability.json").read_text(encoding="utf-8"))
    written = (DOCS / "reliability.md").read_text(encoding="utf-8")
    assert written == page(figures), "python docs/make_reliability.py --page"


def test_shares_add_up_and_newer_runs_replace_older_ones():
    old = {**PART, "injected": 900, "date": "2025-01-01"}
    other = {**PART, "backend": "slurm"}
    found = joined([PART, {**PART, "injected": 4, "found": 1, "date": "2026-01-03", "commit": "def"}], [old, other])
    assert [(row["backend"], row["injected"], row["found"], row["date"], row["commit"]) for row in found] == [
        ("local", 7, 1, "2026-01-03", "def"), ("slurm", 3, 0, "2026-01-02", "abc"),
    ]  # fmt: skip
    assert "| kills | local | kill -9 | 7 | 1 | 2026-01-03 | def | 13 |" in page(found)
    assert "| **all** | | | **10** | **1** |" in page(found)


def test_a_suite_that_injects_nothing_or_finds_something_fails(monkeypatch, tmp_path):
    monkeypatch.setattr(tally, "PARTS", tmp_path / "a" / "b")
    idle = tally.Tally("s", "local", "k", "node")
    with pytest.raises(AssertionError, match="nothing was injected"):
        idle.close()
    busy = tally.Tally("s", "local", "k", "node")
    busy.injected = 2
    busy.expect(False, "the case")
    with pytest.raises(AssertionError, match="the case"):
        busy.close()
    [part] = (tmp_path / "a" / "b").glob("*.json")
    assert json.loads(part.read_text())["found"] == 1


def test_the_same_seed_gives_the_same_inputs():
    one, two, other = (tally.Tally("s", "local", kind, "a::b") for kind in ("x", "x", "y"))
    numbers = [each.dice.random() for each in (one, two, other)]
    assert numbers[0] == numbers[1] != numbers[2]
