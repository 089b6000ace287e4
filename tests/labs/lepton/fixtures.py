"""pytest's side of the lab. A suite takes all of it by importing it into its `conftest.py`:

    from labs.lepton.fixtures import lepton_lab, mended_lepton, pytest_runtest_makereport

Tests that run jobs need root and are marked `needs_mounts`; the server itself runs anywhere.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from labs.lepton.lab import LeptonLab
from labs.pods import needs_mounts

__all__ = ["lepton_lab", "mended_lepton", "needs_mounts", "pytest_runtest_makereport"]

_RUNNING: list[LeptonLab] = []


@pytest.fixture(scope="session")
def lepton_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LeptonLab]:
    """The server of this test process, as new for every test. Several suites import this: one lab serves all."""
    if _RUNNING:
        yield _RUNNING[0]
        return
    lab = LeptonLab(tmp_path_factory.mktemp("lepton"))
    _RUNNING.append(lab)
    yield lab
    _RUNNING.remove(lab)
    lab.close()


@pytest.fixture(autouse=True)
def mended_lepton(request: pytest.FixtureRequest) -> Iterator[None]:
    """After a test that used the lab: nothing undocumented was asked, and nothing is left."""
    yield
    for lab in _used(request.node):
        try:
            lab.tidy()
        finally:
            lab.reset()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None]:
    """Shows what the lab saw below the report of a test that failed with it."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.failed and report.when == "call":
        for lab in _used(item):
            report.sections.append(("the Lepton lab", lab.diagnose()))


def _used(item: pytest.Item) -> list[LeptonLab]:
    return list(_RUNNING) if "lepton_lab" in getattr(item, "fixturenames", ()) else []
