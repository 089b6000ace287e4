"""pytest's side of the lab. A suite takes all of it by importing it into its `conftest.py`:

    from labs.slurm.fixtures import mended_slurm, pytest_runtest_makereport, slurm_lab, slurm_lab_plain

A test process has labs of its own, started when first asked for: faults in one disturb no other process's tests.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from labs.slurm.cluster import SlurmLab

needs_slurm = pytest.mark.lab("slurm", how="bash .ci/lab, then REQUIRE_LAB=1 uv run pytest")
"""Marks a test, or as `pytestmark` a file, that needs the lab."""

_FIXTURES = ("slurm_lab", "slurm_lab_plain")
_RUNNING: dict[str, SlurmLab] = {}
_REQUEST = pytest.StashKey[pytest.FixtureRequest]()


@pytest.fixture(scope="session")
def slurm_lab() -> Iterator[SlurmLab]:
    """A Slurm with accounting, where accounts and QoS are enforced."""
    yield from _lab("slurm_lab", accounting=True)


@pytest.fixture(scope="session")
def slurm_lab_plain() -> Iterator[SlurmLab]:
    """A Slurm without accounting: `sacct` has nothing to say."""
    yield from _lab("slurm_lab_plain", accounting=False)


@pytest.fixture(autouse=True)
def mended_slurm(request: pytest.FixtureRequest) -> Iterator[None]:
    """After a test that used a lab: no job and no fault of it is left."""
    request.node.stash[_REQUEST] = request
    yield
    for lab in labs_of(request.node):
        lab.reset()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None]:
    """Shows the lab's state below the report of a test that failed with it."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.failed:
        for lab in labs_of(item):
            report.sections.append(("the Slurm lab", lab.diagnose()))


def labs_of(item: pytest.Item) -> list[SlurmLab]:
    """The labs that a test uses; its request knows also of those got by `getfixturevalue`."""
    names = item.stash[_REQUEST].fixturenames if _REQUEST in item.stash else ()
    return [_RUNNING[name] for name in _FIXTURES if name in names and name in _RUNNING]


def _lab(name: str, *, accounting: bool) -> Iterator[SlurmLab]:
    """Several suites import the fixtures, and pytest takes each import for a fixture of its own: one lab serves all."""
    if name in _RUNNING:
        yield _RUNNING[name]
        return
    with SlurmLab(accounting=accounting) as lab:
        _RUNNING[name] = lab
        yield lab
        del _RUNNING[name]
