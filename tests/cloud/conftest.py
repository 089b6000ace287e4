"""The labs that clouds' common parts are tested with."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from job_fixtures import torch_bin
from labs.s3.fixtures import s3_lab

__all__ = ["own", "s3_lab", "torch_bin"]


@pytest.fixture
def own() -> Iterator[Path]:
    """A folder of a pod's own: not on the storage that the job's directory is on."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)
