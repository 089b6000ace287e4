"""pytest's side of the lab. A suite takes it by importing `lepton_lab` into its `conftest.py`.

Tests that run jobs need root and are marked `labs.pods.needs_mounts`; the server itself runs anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from labs.fixtures import served
from labs.lepton.lab import LeptonLab


@pytest.fixture
def lepton_lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LeptonLab]:
    """A Lepton workspace without jobs, on the world of `labs.lepton.world`. As `served`."""
    yield from served("lepton", LeptonLab, request, tmp_path_factory)
