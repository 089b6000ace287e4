"""pytest's side of the lab. A suite takes it by importing `runai_lab` into its `conftest.py`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from labs.runai.server import RunaiLab

_RUNNING: dict[str, RunaiLab] = {}


@pytest.fixture
def runai_lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunaiLab]:
    """A run:ai with nothing in it but other people's projects and workloads; one server for all of a process's tests.

    After the test everything of it is ended, and a call that no document knows fails it.
    """
    lab = _RUNNING.get("lab")
    if lab is None:
        lab = _RUNNING["lab"] = RunaiLab(tmp_path_factory.mktemp("runai-lab"))
        request.config.add_cleanup(_close)
    lab.reset()
    yield lab
    print(lab.diagnose())  # pytest shows this below the report of a test that failed
    try:
        lab.tidy()
    finally:
        lab.reset()


def _close() -> None:
    _RUNNING.pop("lab").close()
