"""The backends that the behaviours are tried on. A new backend is one more `Rig` here."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lab_docker
import pytest
from support import Project


@dataclass(frozen=True)
class Setting:
    """What a rig needs in a project of its own.

    Args:
        profile: lines of a profile in TOML. `environment`: what nemotron's process sees besides.
        view: the platform's own description of a job, given its name: where a secret must not stand.
        leftovers: what of a job, given its name and folder, is still on the platform.
    """

    profile: str
    environment: Mapping[str, str] = field(default_factory=dict)
    view: Callable[[str], str] = lambda name: ""
    leftovers: Callable[[str, Path], list[str]] = lambda name, folder: processes_of(folder)


@dataclass(frozen=True)
class Rig:
    """One backend under test.

    Args:
        prepare: the setting for a project; starts what is needed, through pytest's fixtures.
        lab: what to do to get it where it needs a lab part; None where it runs anywhere.
        unsupported: a behaviour's name → why this backend cannot have it.
    """

    name: str
    prepare: Callable[[pytest.FixtureRequest, Project], Setting]
    lab: str | None = None
    unsupported: Mapping[str, str] = field(default_factory=dict)


def processes_of(folder: Path) -> list[str]:
    """The live processes of this machine that name a job's folder in their command line or environment."""
    mark, found = os.fsencode(folder), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
        except OSError:
            continue
        if (mark in command or mark in environment) and process.name != str(os.getpid()):
            found.append(f"{process.name}: {command.decode(errors='replace')}")
    return found


def _local(request: pytest.FixtureRequest, project: Project) -> Setting:
    return Setting('executor = "local"')


def _docker(request: pytest.FixtureRequest, project: Project) -> Setting:
    engine: lab_docker.Engine = request.getfixturevalue("docker_engine")

    def view(name: str) -> str:
        client = engine.client()
        shown = [client.inspect_container(container["Id"]) for container in _containers(engine, name)]
        client.close()
        assert shown, f"{name} has no container"
        return json.dumps(shown)

    def leftovers(name: str, folder: Path) -> list[str]:
        networks = [name for name in engine.networks() if not engine.containers()]
        return processes_of(folder) + [str(c["Names"]) for c in _containers(engine, name)] + networks

    profile = f'executor = "docker"\ncontainer_image = "{lab_docker.BASE}"'
    return Setting(profile, {"DOCKER_HOST": engine.host}, view, leftovers)


def _containers(engine: lab_docker.Engine, job: str) -> list[dict[str, Any]]:
    return [container for container in engine.containers() if f"/{job}" in container["Names"]]


RIGS = (
    Rig("local", _local),
    Rig("docker", _docker, lab=lab_docker.needs_docker.kwargs["how"]),
)
