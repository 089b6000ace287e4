"""pytest's side of the lab. A suite takes all of it by importing it into its `conftest.py`:

from labs.s3.fixtures import mended_s3, s3_lab
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from labs.s3.lab import S3Lab

__all__ = ["mended_s3", "s3_lab"]

_RUNNING: list[S3Lab] = []


@pytest.fixture(scope="session")
def s3_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Lab]:
    """The server of this test process, as new for every test. Several suites import this: one lab serves all."""
    if _RUNNING:
        yield _RUNNING[0]
        return
    lab = S3Lab(tmp_path_factory.mktemp("s3"))
    _RUNNING.append(lab)
    yield lab
    _RUNNING.remove(lab)
    lab.close()


@pytest.fixture(autouse=True)
def mended_s3(request: pytest.FixtureRequest) -> Iterator[None]:
    """After a test that used the lab: nothing undocumented was asked, and nothing is left."""
    yield
    if "s3_lab" not in getattr(request.node, "fixturenames", ()):
        return
    for lab in _RUNNING:
        try:
            assert not lab.crashes and not lab.strays, lab.diagnose()
        finally:
            lab.reset()
