"""`jobs ray` of a job on a cluster, through the login node's real sshd: a real Ray of two nodes, and its dashboard."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from labs.slurm.fixtures import needs_slurm
from ray_dashboard import led_here
from ray_jobs import PATIENCE, wait_until_gone
from slurm_project import Cluster
from waiting import until

pytestmark = [needs_slurm, pytest.mark.slow]

WORKS = """\
# /// script
# dependencies = []
# [tool.runspec]
# schema = "1"
# description = "Two tasks that end with the job."
# [tool.runspec.run]
# launch = "ray"
# ///
import ray, time
ray.init(logging_level="ERROR")

@ray.remote(num_cpus=0.5, scheduling_strategy="SPREAD")
def tokenize():
    time.sleep(3600)

ray.get([tokenize.remote() for _ in range(2)])
"""
EACH = 'nodes = 2\ncpus_per_task = 2\nray_start_timeout = "10m"\nray_worker_resources = { worker_units = 3 }\n'


def test_what_runs_where_and_the_dashboard(cluster: Cluster) -> None:
    with (cluster.project.folder / "env.toml").open("a") as profiles:
        profiles.write(f'\n[rays]\nextends = "there"\n{EACH}')
    name = cluster.batch(WORKS, profile="rays")

    def seen() -> dict:
        return dict(cluster.nemotron("jobs", "ray", name, "--json").succeeds().json)

    found = until(seen, "two tasks", lambda known: tasks(known) == {("tokenize", "running"): 2}, PATIENCE)
    assert (found["phase"], found["nodes_wanted"], found["nodes_alive"]) == ("running", 2, 2)
    assert [(each["name"], each["total"]["CPU"]) for each in found["nodes"]] == [("node-0", 2), ("node-1", 2)]
    assert found["nodes"][1]["total"]["worker_units"] == 3
    with led_here(cluster.started("jobs", "ray", name, "--dashboard", "--json")) as (port, token):
        secret = token.read_text()
        assert token.stat().st_mode & 0o777 == 0o600
        assert version_by(port, secret)["ray_version"] == found["ray"]
        with pytest.raises(urllib.error.HTTPError, match="401"):
            version_by(port, "")
    assert not token.exists()
    cluster.lab.stop_ssh()
    try:
        known = cluster.nemotron("jobs", "ray", name).succeeds().out
    finally:
        cluster.lab.start_ssh()
    assert "unknown since " in known and "tokenize" in known
    cluster.nemotron("jobs", "cancel", name).succeeds()
    wait_until_gone(name)
    ended = seen()
    assert (ended["state"], ended["over"], ended["unknown"]) == ("cancelled", True, "")
    assert [each["name"] for each in ended["nodes"]] == ["node-0", "node-1"]
    everything = [*cluster.local(name).rglob("*"), *cluster.remote(name).rglob("*")]
    assert not [file for file in everything if secret.encode() in content(file)], "the token stays nowhere"


def tasks(known: dict) -> dict[tuple[str, str], int]:
    """How many tasks of a name are in a state."""
    found: dict[tuple[str, str], int] = {}
    for each in known["work"]:
        if each["kind"] == "task":
            key = (each["name"], each["state"])
            found[key] = found.get(key, 0) + each["count"]
    return found


def version_by(port: int, token: str) -> dict:
    """What the dashboard says of itself to who has this token."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api/version", headers=headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return dict(json.load(answer))


def content(file: Path) -> bytes:
    """What is in a file, nothing for what is none."""
    return file.read_bytes() if file.is_file() else b""
