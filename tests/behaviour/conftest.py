"""Every behaviour is tried on every rig that can have it."""

from __future__ import annotations

import pytest
from lab_docker import docker_engine
from support import Project

from behaviour.bench import Bench
from behaviour.rigs import RIGS, Rig


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tries a behaviour on all rigs but those that say they cannot have it; the table in docs/ says so too."""
    if "rig" in metafunc.fixturenames:
        name = metafunc.function.__name__.removeprefix("test_")
        metafunc.parametrize("rig", [_parameter(rig) for rig in RIGS if name not in rig.unsupported], indirect=True)


@pytest.fixture
def rig(request: pytest.FixtureRequest) -> Rig:
    """The backend under test."""
    return request.param


@pytest.fixture
def bench(rig: Rig, request: pytest.FixtureRequest, project: Project) -> Bench:
    """A project with the profile `target`, which runs on the rig."""
    made = Bench(rig, project, rig.prepare(request, project))
    made.profile()
    return made


def _parameter(rig: Rig) -> object:
    marks = [pytest.mark.lab(rig.name, how=rig.lab)] if rig.lab else []
    return pytest.param(rig, id=rig.name, marks=marks)


__all__ = ["docker_engine"]
