"""pytest's side of the lab. A suite takes it by importing `runai_lab` into its `conftest.py`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from labs.fixtures import served
from labs.runai.server import RunaiLab


@pytest.fixture
def runai_lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunaiLab]:
    """A run:ai with nothing in it but other people's projects and workloads. As `served`."""
    yield from served("runai", RunaiLab, request, tmp_path_factory)
