"""A client that has what macOS has (`macos.py`), to the end of its jobs on a cluster. For clouds: tests/lepton."""

from __future__ import annotations

from pathlib import Path

import pytest
from labs.slurm.fixtures import needs_slurm
from macos import client_variables
from slurm_project import Cluster
from support import make_repository
from waiting import open_gate

HELD = """\
import os, time, helper
print("hello", helper.NAME, flush=True)
while not os.path.exists(os.environ["NEMOTRON_JOB_DIR"] + "/go"):
    time.sleep(0.05)
raise SystemExit(3)
"""


@pytest.fixture
def macos(tmp_path: Path) -> dict[str, str]:
    return client_variables(tmp_path / "macos")


@needs_slurm
def test_on_a_cluster_over_ssh(cluster: Cluster, macos: dict[str, str]):
    """Code packed and sent, followed, cancelled, pulled, diagnosed, and removed."""
    path = macos["PATH"].split(":", 1)[0] + ":" + cluster.project.extra["PATH"]
    cluster.project.extra.update(macos, PATH=path)
    cluster.project.write("helper.py", "NAME = 'packed'\n")
    script = cluster.script(HELD)
    make_repository(cluster.project.folder)
    words = ("run", script, "run.env.packager=git")
    name = cluster.nemotron(*words, "--batch", "there").succeeds().out.strip()
    cluster.log_has(name, "hello packed")
    open_gate(cluster.remote(name))
    assert cluster.nemotron("jobs", "wait", name).code == 3
    assert "exit code 3" in cluster.nemotron("jobs", "diagnose", name).out
    cluster.nemotron("jobs", "pull", name, "train.yaml").succeeds()
    other = cluster.nemotron(*words, "--batch", "there").succeeds().out.strip()
    cluster.nemotron("jobs", "cancel", other).succeeds()
    cluster.until(other, lambda job: job["state"] == "cancelled")
    cluster.nemotron("jobs", "rm", name, other).succeeds()
    cluster.nemotron("doctor", "there")
