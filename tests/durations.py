"""A pytest plugin that knows how long each file of tests takes, so that the longest are begun first.

One process runs all of a file: one that takes minutes and is begun last is waited for by all the others. What a run
took is written beside pytest's cache; after a run of all of it that becomes what is known:

    cp .pytest_cache/durations.json tests/data/durations.json
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
KNOWN = _HERE / "data" / "durations.json"
"""File → whole seconds, of those that take more than a few."""
LEAST = 5


class Durations:
    """Puts files in order, and collects what one run of theirs took. `file`: where that is written."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.seconds: Counter[str] = Counter()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """The longest files first, the others as they were found."""
        known = json.loads(KNOWN.read_text(encoding="utf-8")) if KNOWN.exists() else {}
        items.sort(key=lambda item: -known.get(_file_of(item.nodeid), 0))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for setup, call and teardown of every test, in the controller of a parallel run too."""
        self.seconds[_file_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Writes the seconds down."""
        if os.environ.get("PYTEST_XDIST_WORKER") or not self.seconds:
            return
        long = {name: round(took) for name, took in self.seconds.most_common() if took >= LEAST}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps(long, indent=1) + "\n", encoding="utf-8")


def _file_of(node: str) -> str:
    return node.partition("::")[0]
