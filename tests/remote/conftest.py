"""The Slurm lab, and a project that reaches it: from its login node, and over SSH."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_docker import docker_engine
from labs.lepton.fixtures import lepton_lab
from labs.runai.fixtures import runai_lab
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import mended_slurm, pytest_runtest_makereport, pytest_runtest_protocol, slurm_lab
from slurm_project import Cluster, make_cluster

__all__ = [
    "docker_engine",
    "lepton_lab",
    "mended_slurm",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
    "runai_lab",
    "slurm_lab",
]


@pytest.fixture
def cluster(slurm_lab: SlurmLab, tmp_path: Path) -> Iterator[Cluster]:
    """A project with the profiles `here` and `there`."""
    with make_cluster(slurm_lab, tmp_path) as made:
        yield made
