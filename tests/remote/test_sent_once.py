"""What is the same for all jobs goes to a cluster once: the bytes that ssh writes, counted behind it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from labs.slurm.fixtures import needs_slurm
from slurm_project import Cluster

from nemo_runspec.backends.slurm.render import slurm_programs

pytestmark = needs_slurm

SIZE = sum(each.size for each in slurm_programs())
PAGE = 120_000
"""Bytes that a submission may take: connecting, the errands' own scripts, a page. SIZE is more."""
RELAY = """
import os, socket, sys, threading
_, host, port, count = sys.argv
there, seen = socket.create_connection((host, int(port))), open(count, "ab", buffering=0)

def up():
    while data := os.read(0, 65536):
        seen.write(b"x" * len(data))  # before: the other side may have answered by the next line
        there.sendall(data)
    there.shutdown(socket.SHUT_WR)

threading.Thread(target=up, daemon=True).start()
while data := there.recv(65536):
    while data:
        data = data[os.write(1, data):]
"""


class Wire:
    """What has gone over the connections of a project's ssh. Profile `mine` has a folder of its own on the cluster."""

    def __init__(self, cluster: Cluster, top: Path) -> None:
        self._cluster = cluster
        self._count = top / "count"
        profiles = cluster.project.folder / "env.toml"
        own = f'\n[mine]\nextends = "there"\nremote_job_dir = "{top}/run"\n'
        profiles.write_text(profiles.read_text() + own)
        self._count.touch()
        (top / "relay.py").write_text(RELAY)
        config = top / "ssh_config"
        config.write_text(f"{config.read_text()}  ProxyCommand {sys.executable} {top}/relay.py %h %p {self._count}\n")

    def bytes_of(self, *args: str) -> tuple[int, str]:
        """Runs `nemotron ARGS`: the bytes that it has sent, and what it has printed."""
        before = self._count.stat().st_size
        out = self._cluster.nemotron(*args).succeeds().out.strip()
        return self._count.stat().st_size - before, out


@pytest.fixture
def wire(cluster: Cluster, tmp_path: Path) -> Wire:
    return Wire(cluster, tmp_path)


def test_a_second_submission_sends_the_page_alone(cluster: Cluster, wire: Wire):
    run = ("run", cluster.script("print('here')"), "--batch", "mine")
    first, name = wire.bytes_of(*run)
    second, other = wire.bytes_of(*run)
    assert PAGE < SIZE < first
    assert second < min(PAGE, first - SIZE / 2)
    assert cluster.until(name, lambda job: job["over"])["state"] == "succeeded"
    shutil.rmtree(cluster.remote(name).parents[1] / "packages")
    assert cluster.until(other, lambda job: job["over"])["state"] == "succeeded"
    again, _ = wire.bytes_of("jobs", "retry", other)
    assert again > SIZE, "the pool was wiped away; a retry succeeds only where its job does"


def test_a_sweep_sends_them_once_for_all_its_runs(cluster: Cluster, wire: Wire):
    run = ("run", cluster.script("print('here')"), "--batch", "mine", "-m", "+run.env.env_vars.N=1,2,3")
    first, _ = wire.bytes_of(*run)
    second, _ = wire.bytes_of(*run)
    assert SIZE < first < 2 * SIZE + PAGE
    assert second < PAGE
