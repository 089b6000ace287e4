"""pytest's side of the lab. A suite takes it by importing `s3_lab` into its `conftest.py`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from labs.fixtures import served
from labs.s3.lab import S3Lab


@pytest.fixture
def s3_lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Lab]:
    """An S3 service with nothing in its bucket. As `served`."""
    yield from served("s3", S3Lab, request, tmp_path_factory)
