"""A job that runs on Slurm, and a squeue and a sacct that say for a while that they know nothing of it."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from absence_suite import later
from labs.slurm.fixtures import needs_slurm
from slurm_project import Cluster
from support import Outcome, Project
from waiting import open_gate, until

pytestmark = needs_slurm

SILENT = """\
#!/bin/sh
[ -e {denied} ] && exit 0
exec {real} "$@"
"""
HELD = """
    import os, time
    print("ready", flush=True)
    while not os.path.exists(os.environ["NEMOTRON_JOB_DIR"] + "/go"):
        time.sleep(0.05)
    raise SystemExit(3)
"""


@dataclass(frozen=True)
class Site:
    """The cluster, whose squeue and sacct say nothing while the file `denied` is there."""

    cluster: Cluster
    project: Project
    denied: Path

    def nemotron(self, *args: str, **environment: str) -> Outcome:
        return self.cluster.nemotron(*args, **environment)

    def record(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.cluster.local(name) / "record.json").read_text())
        return found

    def state(self, name: str) -> str:
        return str(self.cluster.status(name)["state"])


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Site:
    tools, denied = tmp_path / "silent", tmp_path / "denied"
    tools.mkdir()
    for tool in ("squeue", "sacct"):
        (tools / tool).write_text(
            SILENT.format(denied=denied, real=shutil.which(tool, path=cluster.lab.environment()["PATH"]))
        )
        (tools / tool).chmod(0o755)
    cluster.project.extra["PATH"] = f"{tools}:{cluster.project.extra['PATH']}"
    return Site(cluster, cluster.project, denied)


@pytest.fixture
def running(site: Site) -> str:
    name = site.cluster.batch(HELD, profile="here")
    site.cluster.until(name, lambda record: record["state"] == "running")
    return name


@pytest.fixture
def lost(site: Site, running: str) -> str:
    site.denied.touch()
    for _ in range(2):
        assert site.state(running) == "unknown"
        later(site, running)
    assert site.state(running) == "lost"
    return running


def test_what_slurm_does_not_know_for_a_moment(site: Site, running: str):
    site.denied.touch()
    assert [site.state(running) for _ in range(3)] == ["unknown"] * 3
    site.denied.unlink()
    before = site.record(running)["states"]
    assert site.state(running) == "running"
    open_gate(site.cluster.remote(running))
    assert site.nemotron("jobs", "wait", running).code == 3
    assert site.record(running)["states"][: len(before)] == before


def test_a_lost_job_that_runs_is_ended_and_neither_repeated_nor_removed(site: Site, lost: str):
    for command in ("retry", "rm"):
        site.denied.unlink(missing_ok=True)
        site.nemotron("jobs", command, lost).refuses(f"'{lost}' is running")
        assert site.cluster.local(lost).is_dir()
    assert f"{lost}: cancelled" in site.nemotron("jobs", "cancel", lost).succeeds().out
    until(lambda: [row[2] for row in site.cluster.queued()], "its end", lambda states: "RUNNING" not in states)


@pytest.mark.parametrize("command", ["cancel", "stop", "retry", "rm"])
def test_a_lost_job_that_cannot_be_asked_about_is_left(site: Site, lost: str, command: str, tmp_path: Path):
    site.denied.unlink()
    (tmp_path / "silent" / "bash").write_text("#!/bin/sh\necho no shell here >&2; exit 255\n")
    (tmp_path / "silent" / "bash").chmod(0o755)
    done = site.nemotron("jobs", command, lost)
    assert done.code != 0, done.out
    assert "already" not in done.out
    assert site.record(lost)["states"][-1]["state"] == "lost"
    (tmp_path / "silent" / "bash").unlink()
    site.nemotron("jobs", "cancel", lost).succeeds()
