"""The toy backend of another distribution, installed beside nemotron: on the path of the processes that tests start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from behaviour.bench import Bench
from behaviour.rigs import Rig, Setting, handle_of, processes_of
from labs.s3.fixtures import s3_lab
from support import Project

from nemo_runspec.uv_process import find_uv, uv_environment

DISTRIBUTION = Path(__file__).parent


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the toy's distribution in it, built and installed as any other."""
    folder = tmp_path_factory.mktemp("site")
    words = [find_uv(), "pip", "install", "--quiet", "--no-deps", "--target", str(folder), str(DISTRIBUTION)]
    subprocess.run(words, env=uv_environment(os.environ), check=True)
    return folder


@pytest.fixture
def spooled(site: Path, project: Project) -> Setting:
    """The setting of a project with jobs in the spool."""
    run = project.folder.parent / "spool"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return Setting(
        f'executor = "spool"\nspool_dir = "{run}"',
        {"PYTHONPATH": str(site), "PATH": path},
        leftovers=lambda name, folder: processes_of(folder) + processes_of(root_of(folder)),
        safes=lambda folder: [path for path in [root_of(folder) / "secrets.env"] if path.exists()],
        folders=[run],
        job_dir=root_of,
        left_alone=lambda folder: False,
    )


def root_of(folder: Path) -> Path:
    """Where a job's files are in the spool."""
    return Path(handle_of(folder)["root"])


@pytest.fixture
def rig(spooled: Setting) -> Rig:
    """The toy, as one more backend under test: its jobs have two nodes."""
    return Rig("spool", lambda request, project: spooled, needs_launcher=("planned", "submitting"), nodes=2, several=2)


@pytest.fixture
def bench(rig: Rig, request: pytest.FixtureRequest, project: Project) -> Iterator[Bench]:
    """A project with the profile `target` on the toy. A job that a failed test has left is ended."""
    made = Bench(rig, project, rig.prepare(request, project))
    made.profile()
    yield made
    for folder in (project.state / "jobs").glob("*-*"):
        made.nemotron("jobs", "cancel", folder.name, "--grace", "1")


__all__ = ["s3_lab"]
