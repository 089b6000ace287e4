"""The engine, a project whose profile `box` uses it, and plans for Docker."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import docker_plans
import pytest
from lab_docker import BASE, Engine, docker_engine
from support import Project

__all__ = ["docker_engine"]

PROFILE = f"""\
[box]
executor = "docker"
container_image = "{BASE}"
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """nemotron's own folder, not the user's."""
    monkeypatch.setenv("NEMOTRON_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def engine(docker_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The engine, as the one that DOCKER_HOST names."""
    monkeypatch.setenv("DOCKER_HOST", docker_engine.host)
    return docker_engine


@pytest.fixture
def box(docker_engine: Engine, project: Project) -> Project:
    """A project whose profile `box` runs jobs in the engine."""
    made = replace(project, extra={"DOCKER_HOST": docker_engine.host})
    made.write("env.toml", PROFILE)
    return made


@pytest.fixture
def make_plan(state: Path, tmp_path: Path):
    """`make_plan(script, container_image=…)`: a plan for Docker with this profile."""
    return partial(docker_plans.make_plan, tmp_path)
