"""Every behaviour is tried on every rig that can have it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_docker import docker_engine
from labs.lepton.fixtures import lepton_lab
from labs.runai.fixtures import runai_lab
from labs.s3.lab import S3Lab
from labs.slurm.fixtures import mended_slurm, pytest_runtest_makereport, pytest_runtest_protocol, slurm_lab
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
def bench(rig: Rig, request: pytest.FixtureRequest, project: Project) -> Iterator[Bench]:
    """A project with the profile `target`, which runs on the rig. A job that a failed test has left is ended."""
    made = Bench(rig, project, rig.prepare(request, project))
    made.profile()
    yield made
    for folder in (project.state / "jobs").glob("*-*"):
        if made.setting.left_alone(folder):
            made.nemotron("jobs", "cancel", folder.name, "--grace", "1")


@pytest.fixture
def s3_lab(rig: Rig, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[S3Lab]:
    """An S3 service that the rig's jobs reach: a cluster's machines have a network of their own."""
    here = request.getfixturevalue("slurm_lab").outside if rig.name == "slurm" else "127.0.0.1"
    (tmp_path / "s3").mkdir()
    lab = S3Lab(tmp_path / "s3", host=here)
    yield lab
    lab.close()


def _parameter(rig: Rig) -> object:
    marks = [pytest.mark.lab(rig.name, how=rig.lab)] if rig.lab else []
    return pytest.param(rig, id=rig.name, marks=marks)


__all__ = [
    "docker_engine",
    "lepton_lab",
    "mended_slurm",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
    "runai_lab",
    "slurm_lab",
]
