"""This machine's clock two hours ahead of the cluster's, or behind: nothing is believed or shown because of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from labs.slurm.fixtures import needs_slurm
from skewed_clock import OFFSETS, set_off
from slurm_project import Cluster
from waiting import open_gate

pytestmark = needs_slurm

SCRIPT = """
import os, pathlib, sys, time
print("begun", flush=True)
while not pathlib.Path(os.environ["NEMOTRON_JOB_DIR"], "go").exists() and os.environ["HELD"] == "1":
    time.sleep(0.05)
print("line", os.environ["NEMOTRON_NODE_RANK"], flush=True)
sys.exit(int(os.environ["CODE"]))
"""


def held(cluster: Cluster, code: int, is_held: int) -> list[str]:
    return [f"++run.env.env_vars.{name}='{value}'" for name, value in (("CODE", code), ("HELD", is_held))]


def row_of(cluster: Cluster, name: str, clock: dict[str, str]) -> list[str]:
    """What `jobs status` shows of a job: its words."""
    table = cluster.nemotron("jobs", "status", name, **clock).succeeds().out
    return next(line.split() for line in table.splitlines() if line.startswith(name))


def seconds_in(text: str) -> float:
    """As 3.9 (s), 1:05 or 2:00:05."""
    total = 0.0
    for part in text.split(":"):
        total = total * 60 + float(part)
    return total


@pytest.mark.parametrize("seconds", OFFSETS)
def test_an_attached_run(cluster: Cluster, tmp_path: Path, seconds: int):
    clock = set_off(cluster.project, tmp_path, seconds)
    script = cluster.script(SCRIPT)
    done = cluster.nemotron("run", script, "--run", "pair", *held(cluster, 7, 0), **clock)
    assert done.code == 7, done.err
    assert [done.out.count(f"line {rank}") for rank in (0, 1)] == [1, 1]
    record = cluster.show(cluster.newest())
    assert (record["state"], record["exit_code"]) == ("failed", 7)
    assert 0 <= record["elapsed"] < 600


@pytest.mark.parametrize(("submitting", "asking"), [(0, 7200), (7200, 0), (-7200, 7200), (7200, 7200)])
def test_one_machine_submits_and_another_asks(cluster: Cluster, tmp_path: Path, submitting: int, asking: int):
    """Each by its own clock: the job's time is that of the cluster, and it is ended or not as it would be."""
    mine, other = (set_off(cluster.project, tmp_path, each) for each in (submitting, asking))
    name = cluster.batch(SCRIPT, *held(cluster, 0, 1), **mine)
    cluster.log_has(name, "begun")
    row = row_of(cluster, name, other)
    assert row[1] == "running"
    assert 0 <= seconds_in(row[3]) < 600, row
    open_gate(cluster.remote(name))
    assert cluster.nemotron("jobs", "wait", name, **other).code == 0
    record = cluster.show(name)
    assert (record["state"], 0 <= record["elapsed"] < 600) == ("succeeded", True)
    assert "line 0" in cluster.nemotron("jobs", "logs", name, **other).succeeds().out
