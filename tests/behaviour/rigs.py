"""The backends that the behaviours are tried on. A new backend is one more `Rig` here."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lab_docker
import pytest
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from support import Project

_ASKS = (
    "Ctrl-C asks whether the job is to go on alone or to be cancelled (it goes on where nobody can be asked); "
    "tested with a terminal in tests/remote"
)

_TRACKED = (
    "Slurm itself ends what a job leaves, where it tracks processes by control groups (`ProctrackType=proctrack/cgroup`"
    "), which the lab's machine cannot"
)


@dataclass(frozen=True)
class Setting:
    """What a rig needs in a project of its own.

    Args:
        profile: lines of a profile in TOML. `environment`: what nemotron's process sees besides.
        view: the platform's own description of a job, given its name: where a secret must not stand.
        leftovers: what of a job, given its name and folder, is still on the platform.
        safes: files of a job, given its folder, that hold its secrets while it is not over, for its owner alone.
        folders: where its jobs' files lie, besides the project's own.
        left_alone: whether a job, given its folder, is to be ended after a test.
    """

    profile: str
    environment: Mapping[str, str] = field(default_factory=dict)
    view: Callable[[str], str] = lambda name: ""
    leftovers: Callable[[str, Path], list[str]] = lambda name, folder: processes_of(folder)
    safes: Callable[[Path], list[Path]] = lambda folder: []
    folders: Sequence[Path] = ()
    left_alone: Callable[[Path], bool] = lambda folder: not (folder / "status" / "node-0").exists()


@dataclass(frozen=True)
class Rig:
    """One backend under test.

    Args:
        prepare: the setting for a project; starts what is needed, through pytest's fixtures.
        lab: what to do to get it where it needs a lab part; None where it runs anywhere.
        unsupported: a behaviour's name → why this backend cannot have it.
        needs_launcher: states in which even a detached job still needs the process that has started it.
    """

    name: str
    prepare: Callable[[pytest.FixtureRequest, Project], Setting]
    lab: str | None = None
    unsupported: Mapping[str, str] = field(default_factory=dict)
    needs_launcher: Sequence[str] = ()


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


def _slurm(request: pytest.FixtureRequest, project: Project) -> Setting:
    """From a login node: over SSH the same jobs come to the same cluster, only later.

    All projects' jobs lie in one folder, so that their batch scripts are equal and NeMo-Run is asked once, for seconds.
    """
    lab: SlurmLab = request.getfixturevalue("slurm_lab")
    request.addfinalizer(lab.reset)
    _remember_comparisons(project.state / "cache" / "compared", lab.base / "compared")

    def view(name: str) -> str:
        """Its description and files, and what slurmctld and the nodes have written down of it and its environment."""
        folder = _remote_folder(project.state / "jobs" / name)
        files = [path for path in folder.iterdir() if path.suffix in (".sh", ".out")]
        kept = [*lab.base.glob("state/hash.*/job.*/*"), *lab.base.glob("nodes/*/spool/job*/*")]
        assert {"environment", "script", "slurm_script"} <= {path.name for path in kept}, kept
        told = lab.run("scontrol", "--all", "show", "job", "--details").stdout
        read = [*files, *kept, *(lab.base / "log").iterdir()]
        return "\n".join([told, *(path.read_text(errors="replace") for path in read)])

    def leftovers(name: str, folder: Path) -> list[str]:
        remote = _remote_folder(folder)
        queued = lab.run("squeue", "--noheader", f"--name={_job_name(folder)}", "--format=%i %T").stdout.splitlines()
        return processes_of(folder) + processes_of(remote) + queued + [str(path) for path in safes(folder)]

    def safes(folder: Path) -> list[Path]:
        return [path for path in [_remote_folder(folder) / "secrets.env"] if path.exists()]

    run = lab.base / "jobs"
    profile = f'executor = "slurm"\naccount = "acme"\npartition = "batch"\ntime = "00:10:00"\nremote_job_dir = "{run}"'
    environment = lab.environment()
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    return Setting(profile, environment, view, leftovers, safes, folders=[run], left_alone=lambda folder: False)


def _remember_comparisons(folder: Path, kept: Path) -> None:
    """A project asks NeMo-Run itself about its first batch script, for seconds; so does the first of all these here."""
    kept.mkdir(exist_ok=True)
    folder.parent.mkdir(parents=True)
    folder.symlink_to(kept)


def _remote_folder(folder: Path) -> Path:
    """Where a job's files are on its cluster."""
    return Path(_handle(folder)["job_dir"])


def _job_name(folder: Path) -> str:
    return str(_handle(folder)["name"])


def _handle(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "record.json").read_text(encoding="utf-8"))["handle"])


RIGS = (
    Rig("local", _local),
    Rig("docker", _docker, lab=lab_docker.needs_docker.kwargs["how"]),
    Rig(
        "slurm",
        _slurm,
        lab=needs_slurm.kwargs["how"],
        unsupported={"interrupt": _ASKS, "leftovers_of_a_job": _TRACKED},
        needs_launcher=("planned", "submitting"),
    ),
)
