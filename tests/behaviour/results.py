"""A pytest plugin that notes how every behaviour fared on every rig, and under REQUIRE_LAB=1 checks the table in docs/.

`tests/conftest.py` registers it, so that it also stands in the controller of a parallel run, which alone sees all.
"""

from __future__ import annotations

import ast
import json
import os
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from behaviour.rigs import RIGS

_HERE = Path(__file__).parent
_DOCS = _HERE.parents[1] / "docs"
_FULL = "pytest.mark.full"
_WORST = ("not run", "passed", "failed")
"""Outcomes, the one that counts last: a behaviour may be several tests."""


class Results:
    """Collects the outcomes of one run. `cells`: (behaviour, rig) → passed or failed."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.cells: dict[tuple[str, str], str] = {}
        self.stale: str | None = None

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Makes known to the controller which behaviour and which rig a test is about."""
        rig = getattr(item, "callspec", None) and item.callspec.params.get("rig")
        if item.path.parent == _HERE and rig is not None:
            item.user_properties.append(("behaviour", [item.function.__name__.removeprefix("test_"), rig.name]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for setup, call and teardown of every test, in the controller too."""
        place = dict(report.user_properties).get("behaviour")
        if place is None or report.skipped:
            return
        if report.failed or report.when == "call":
            seen = "failed" if report.failed else "passed"
            before = self.cells.get(tuple(place), "not run")
            self.cells[tuple(place)] = max(before, seen, key=_WORST.index)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Writes the results; fails the run where the table in docs/ does not show what all of the suite has shown."""
        if not self.cells or os.environ.get("PYTEST_XDIST_WORKER"):
            return
        table = as_table(self.cells)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        if os.environ.get("REQUIRE_LAB") == "1":
            table = as_table({**_left_to_full(), **self.cells})
        cells = [cell for section in table["sections"] for row in section["rows"] for cell in row["cells"].values()]
        if os.environ.get("REQUIRE_LAB") not in ("1", "full") or any(cell in ("not run", "failed") for cell in cells):
            return
        page = runpy.run_path(str(_DOCS / "make_behaviours.py"))["page"](table)
        shown = _DOCS / "behaviours.md"
        if not shown.is_file() or shown.read_text(encoding="utf-8") != page:
            self.stale = f"{shown} is not what was just run; write it anew: python docs/make_behaviours.py {self.file}"
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Says why the run failed."""
        if self.stale:
            terminalreporter.section("the table of behaviours", red=True)
            terminalreporter.write_line(self.stale)


def _left_to_full() -> dict[tuple[str, str], str]:
    """What only REQUIRE_LAB=full runs: the table shows what that has seen."""
    tests = [test for file in sorted(_HERE.glob("test_*.py")) for test in _tests_of(file)[1]]
    names = [test.name.removeprefix("test_") for test in tests if _FULL in map(ast.unparse, test.decorator_list)]
    return {(name, rig.name): "passed" for name in names for rig in RIGS}


def as_table(cells: dict[tuple[str, str], str]) -> dict[str, Any]:
    """The whole table: every behaviour that is written down, whether it was run or not."""
    return {"rigs": [rig.name for rig in RIGS], "sections": list(_sections(cells))}


def _sections(cells: dict[tuple[str, str], str]) -> Iterator[dict[str, Any]]:
    for file in sorted(_HERE.glob("test_*.py")):
        module, tests = _tests_of(file)
        rows = [_row(test.name.removeprefix("test_"), _sentence(test, file), cells) for test in tests]
        yield {"title": (ast.get_docstring(module) or "").partition("\n")[0], "rows": rows}


def _tests_of(file: Path) -> tuple[ast.Module, list[ast.FunctionDef]]:
    module = ast.parse(file.read_text(encoding="utf-8"))
    found = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return module, found


def _row(name: str, sentence: str, cells: dict[tuple[str, str], str]) -> dict[str, Any]:
    shown: dict[str, Any] = {rig.name: cells.get((name, rig.name), "not run") for rig in RIGS}
    shown |= {rig.name: {"not supported": rig.unsupported[name]} for rig in RIGS if name in rig.unsupported}
    return {"name": name, "sentence": sentence, "cells": shown}


def _sentence(test: ast.FunctionDef, file: Path) -> str:
    said = ast.get_docstring(test)
    if not said:
        raise ValueError(f"{file.name}: {test.name} has no docstring; the table in docs/ is made of them")
    return " ".join(said.split())
