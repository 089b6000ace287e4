"""The table in docs/behaviours.md: made of results cell by cell, and held to what was just run."""

from __future__ import annotations

import json
import re
import runpy
from dataclasses import replace
from types import SimpleNamespace

import pytest
from behaviour import results
from behaviour.results import Results, as_table
from behaviour.rigs import RIGS
from support import REPOSITORY

PAGE = REPOSITORY / "docs" / "behaviours.md"
page = runpy.run_path(str(REPOSITORY / "docs" / "make_behaviours.py"))["page"]


def names() -> list[str]:
    return [row["name"] for section in as_table({})["sections"] for row in section["rows"]]


def report(name: str, rig: str, outcome: str = "passed", when: str = "call") -> pytest.TestReport:
    place = (f"{name}[{rig}]", None, name)
    return pytest.TestReport(place[0], place, {}, outcome, None, when, user_properties=[("behaviour", [name, rig])])


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """`finished(reports)` → (the run's exit status, the table it has written)."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setenv("REQUIRE_LAB", "1")

    def finish(*reports: pytest.TestReport):
        plugin = Results(tmp_path / "cache" / "behaviours.json")
        plugin.file.unlink(missing_ok=True)
        for one in reports:
            plugin.pytest_runtest_logreport(one)
        session = SimpleNamespace(exitstatus=0)
        plugin.pytest_sessionfinish(session)
        return session.exitstatus, json.loads(plugin.file.read_text()) if plugin.file.exists() else None

    return finish


def whole() -> list[pytest.TestReport]:
    return [report(name, rig.name) for name in names() for rig in RIGS if name not in rig.unsupported]


def test_the_committed_page_has_the_behaviours_there_are():
    """Where nothing is run: what is committed may show a missing cell, but no other behaviour, rig or reason."""

    def without_outcomes(text: str) -> str:
        return re.sub(r"(?<=\| )(passed|\*\*failed\*\*|not run here)(?= \|)", "?", text)

    assert without_outcomes(PAGE.read_text(encoding="utf-8")) == without_outcomes(page(as_table({})))
    assert len(names()) == len(set(names())) > 30


def test_unsupported_names_are_behaviours():
    assert {name for rig in RIGS for name in rig.unsupported} <= set(names())


def test_cells(monkeypatch):
    rigs = (replace(RIGS[0], unsupported={}), SimpleNamespace(name="cloud", unsupported={"cancel": "it has none"}))
    monkeypatch.setattr(results, "RIGS", rigs)
    text = page(as_table({("cancel", "local"): "passed", ("detach", "cloud"): "failed"}))
    assert "| behaviour | local | cloud |\n|---|---|---|\n" in text
    rows = {row["name"]: row["sentence"] for section in as_table({})["sections"] for row in section["rows"]}
    assert f"| {rows['cancel']} | passed | [1](#not-supported) |" in text
    assert f"| {rows['detach']} | not run here | **failed** |" in text
    assert text.endswith("## Not supported\n\n1. cloud: it has none\n")


def test_a_run_of_all_of_it_must_show_what_is_committed(finished, tmp_path, monkeypatch):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "make_behaviours.py").write_bytes((REPOSITORY / "docs" / "make_behaviours.py").read_bytes())
    monkeypatch.setattr(results, "_DOCS", docs)
    code, table = finished(*whole())
    assert (code, '"failed"' in json.dumps(table), '"not run"' in json.dumps(table)) == (1, False, False)
    (docs / "behaviours.md").write_text(page(table), encoding="utf-8")
    assert finished(*whole())[0] == 0
    (docs / "behaviours.md").write_text(page(table).replace("passed |", "not run here |", 1), encoding="utf-8")
    assert finished(*whole())[0] == 1
    assert finished(*whole()[1:])[0] == 0, "a part of it says nothing about the rest"
    monkeypatch.delenv("REQUIRE_LAB")
    assert finished(*whole())[0] == 0


def test_the_worst_of_several_tests_counts(finished):
    def cell(*reports: pytest.TestReport) -> str | None:
        _, table = finished(*reports)
        found = [r["cells"]["local"] for s in (table or {"sections": []})["sections"] for r in s["rows"]]
        return found[names().index("cancel")] if found else None

    assert cell(report("cancel", "local"), report("cancel", "local")) == "passed"
    assert cell(report("cancel", "local", "failed"), report("cancel", "local")) == "failed"
    assert cell(report("cancel", "local"), report("cancel", "local", "failed", "teardown")) == "failed"
    assert cell(report("detach", "local"), report("cancel", "local", "passed", "setup")) == "not run"
    assert cell(report("cancel", "local", "skipped", "setup")) is None
