"""pytest's side of the lab. A suite takes all of it by importing it into its `conftest.py`:

    from labs.slurm.fixtures import mended_slurm, pytest_runtest_makereport, pytest_runtest_protocol, slurm_lab

A test process has labs of its own, started when first asked for: faults in one disturb no other process's tests.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest
from _pytest.runner import runtestprotocol

from labs.slurm.cluster import SlurmLab

needs_slurm = pytest.mark.lab("slurm", how="bash .ci/lab, then REQUIRE_LAB=1 uv run --group dev pytest")
"""Marks a test, or as `pytestmark` a file, that needs the lab."""

_FIXTURES = ("slurm_lab", "slurm_lab_plain")
_RUNNING: dict[str, SlurmLab] = {}
_REQUEST = pytest.StashKey[pytest.FixtureRequest]()
_BROKEN = pytest.StashKey[list[str]]()


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
    broken = request.node.stash[_BROKEN] = list[str]()
    for lab in labs_of(request.node):
        broken += lab.reset()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None]:
    """Shows the lab's state below the report of a test that failed with it."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.failed:
        for lab in labs_of(item):
            report.sections.append(("the Slurm lab", lab.diagnose()))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Runs a test once more that failed while a daemon of its lab ended by itself, and warns of it.

    Seen with 22.05.8: a slurmd that launches several jobs at once dies ("free(): unaligned chunk"). That says nothing
    of the test, and no test can do it: what one does to a daemon is known to its lab.
    """
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if (broken := item.stash.get(_BROKEN, [])) and any(report.failed for report in reports):
        item.warn(pytest.PytestWarning(f"run again: {', '.join(broken)} of the Slurm lab ended by itself"))
        item._initrequest()  # type: ignore[attr-defined]  # new fixtures, as each run of a test has
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


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
