"""The labs, a tally for each test, and a project on each backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from behaviour.bench import Bench
from behaviour.rigs import RIGS, Rig
from lab_docker import docker_engine
from labs.lepton.fixtures import lepton_lab
from labs.runai.fixtures import runai_lab
from labs.slurm.fixtures import mended_slurm, pytest_runtest_makereport, pytest_runtest_protocol, slurm_lab
from support import Project

from reliability.tally import Tally

__all__ = [
    "docker_engine",
    "lepton_lab",
    "mended_slurm",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
    "runai_lab",
    "slurm_lab",
]


def on(*names: str) -> pytest.MarkDecorator:
    """Parametrizes a test with these backends; those that need a lab part are left out without it."""
    chosen = [rig for rig in RIGS if rig.name in names]
    marks = {rig.name: [pytest.mark.lab(rig.name, how=rig.lab)] if rig.lab else [] for rig in chosen}
    return pytest.mark.parametrize(
        "rig", [pytest.param(rig, marks=marks[rig.name], id=rig.name) for rig in chosen], indirect=True
    )


@pytest.fixture
def rig(request: pytest.FixtureRequest) -> Rig:
    """The backend under test."""
    found: Rig = request.param
    return found


@pytest.fixture
def bench(rig: Rig, request: pytest.FixtureRequest, project: Project) -> Iterator[Bench]:
    """A project with the profile `target` on the backend. Jobs that a failed test has left are ended."""
    made = Bench(rig, project, rig.prepare(request, project))
    made.profile()
    yield made
    for folder in (project.state / "jobs").glob("*-*"):
        if made.setting.left_alone(folder):
            made.nemotron("jobs", "cancel", folder.name, "--grace", "1")


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Callable[..., Tally]]:
    """`tally(suite, backend, kind)`: closed after the test, which fails where something was found."""
    made: list[Tally] = []

    def make(suite: str, backend: str, kind: str) -> Tally:
        made.append(Tally(suite, backend, kind, f"{request.node.nodeid} {kind}"))
        return made[-1]

    yield make
    for each in made:
        each.close()
