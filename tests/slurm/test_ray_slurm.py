"""Ray over several nodes of a real Slurm: who joins, who is missing, who is lost, and what is left afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from ray_jobs import LOSES, PATIENCE, RAY_BIN, left_of, wait_until_gone, with_ray
from slurm_jobs import LabHost, configured, slurm_plan, start, tasks_said, wait
from waiting import until

pytestmark = [needs_slurm, pytest.mark.slow]

WORK = """
import json, os, ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

ray.init(logging_level="ERROR")
nodes = {node["NodeName"]: node for node in ray.nodes() if node["Alive"]}
print("cluster", json.dumps({name: node["Resources"] for name, node in nodes.items()}))

@ray.remote(resources={"worker_units": 1})
def where():
    print("said by a task")
    return os.uname().nodename, os.getcwd(), os.environ["ANY"], os.environ.get("NCCL_SOCKET_IFNAME")

print("task", *ray.get(where.remote()), flush=True)
raise SystemExit(7)
"""


ON_PATH = f"export PATH={RAY_BIN}:$PATH NCCL_SOCKET_IFNAME=eth9"


@pytest.fixture
def host(slurm_lab: SlurmLab) -> LabHost:
    return LabHost(slurm_lab)


def test_two_nodes_are_one_cluster_as_long_as_the_command_runs(host: LabHost, tmp_path: Path):
    plan = slurm_plan(
        tmp_path, WORK, {"cpus_per_task": 2}, launch="ray", nodes=2, setup=(ON_PATH,), env={"ANY": "thing"}
    )
    plan = with_ray(plan, cpus=2, resources={"nrl_tag_ALL": 1}, worker_resources={"worker_units": 1})
    job = start(host, plan)
    seen = wait(host, job, seconds=PATIENCE)
    said = tasks_said(plan, job)
    assert (seen.state, seen.exit_code) == ("failed", 7), said + seen.reason
    assert "node 1" not in seen.reason  # which served it, and ended with it
    cluster = json.loads(next(line for line in said.splitlines() if "cluster {" in line).partition("cluster ")[2])
    asked = ("CPU", "GPU", "nrl_tag_ALL", "worker_units")
    assert {name: {key: has.get(key) for key in asked} for name, has in cluster.items()} == {
        "node-0": {"CPU": 2.0, "GPU": None, "nrl_tag_ALL": 1.0, "worker_units": None},
        "node-1": {"CPU": 2.0, "GPU": None, "nrl_tag_ALL": 1.0, "worker_units": 1.0},
    }
    assert "task n2 " in said and " thing None" in said
    logs = Path(plan.job_dir) / "logs" / "ray"
    for node in ("node-0", "node-1"):
        assert (logs / node / "raylet.out").stat().st_size
    assert any("said by a task" in file.read_text() for file in (logs / "node-1").glob("worker-*.out"))
    assert not left_of(plan.name)


HOLDS_OUT = """
import ray, signal, time

ray.init(logging_level="ERROR")

@ray.remote(resources={"worker_units": 1})
def lives():
    return True

signal.signal(signal.SIGTERM, lambda *_: print("told, with its cluster:", ray.get(lives.remote()), flush=True))
print("ready", ray.get(lives.remote()), flush=True)
while True:
    time.sleep(0.1)
"""


@pytest.mark.full
def test_a_time_limit_ends_the_command_and_all_of_ray(host: LabHost, tmp_path: Path):
    """The warning before it, which `signal` asks for, comes while the whole cluster is there."""
    limits = {"time": "00:02:00", "signal": "TERM@5"}
    plan = slurm_plan(tmp_path, HOLDS_OUT, limits, launch="ray", nodes=2, setup=(ON_PATH,))
    job = start(host, with_ray(plan, worker_resources={"worker_units": 1}))
    seen = wait(host, job, seconds=PATIENCE)
    said = tasks_said(plan, job)
    assert seen.state == "failed" and "its time limit was reached" in seen.reason, said + seen.reason
    assert "told, with its cluster: True" in said
    wait_until_gone(plan.name)


def test_a_node_that_does_not_join_is_named(host: LabHost, tmp_path: Path):
    """The Python of the second node never starts."""
    hangs = tmp_path / "hangs" / "python"
    hangs.parent.mkdir()
    hangs.write_text("#!/bin/sh\nexec sleep 600\n")
    hangs.chmod(0o755)
    setup = (ON_PATH, f'[ "$NODE_RANK" = 0 ] || export PATH={hangs.parent}:$PATH')
    plan = slurm_plan(tmp_path, "print('never')", launch="ray", nodes=2, setup=setup)
    job = start(host, with_ray(plan, start_timeout=5))
    seen = wait(host, job, seconds=PATIENCE)
    assert (seen.state, seen.exit_code) == ("failed", 1)
    assert "node 1 (n2" in seen.reason and "ray_start_timeout = 5s" in seen.reason, seen.reason
    assert "never" not in tasks_said(plan, job)
    wait_until_gone(plan.name)


def test_a_node_that_is_lost_in_the_middle_is_named(host: LabHost, tmp_path: Path):
    """Its raylet is killed, from inside a task. The command, which would wait for ever, is ended."""
    plan = slurm_plan(tmp_path, LOSES, launch="ray", nodes=2, setup=(ON_PATH,))
    job = start(host, with_ray(plan, worker_resources={"worker_units": 1}))
    seen = wait(host, job, seconds=PATIENCE)
    assert (seen.state, seen.exit_code) == ("failed", 1), tasks_said(plan, job) + seen.reason
    assert "node 1" in seen.reason and "n2" in seen.reason, seen.reason
    assert "went on" not in tasks_said(plan, job)
    wait_until_gone(plan.name)


STAYS = """
import signal, time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready True", flush=True)
while True:
    time.sleep(0.1)
"""


@pytest.mark.full
def test_slurms_own_end_is_told_as_of_any_job(slurm_lab: SlurmLab, host: LabHost, tmp_path: Path):
    """A time limit without `signal`, and somebody's bare scancel, with which all of Ray has its TERM too."""
    plans = {}
    for how in ("late", "cancelled"):
        ray = "import ray\nray.init(logging_level='ERROR')\n" + STAYS
        plan = slurm_plan(tmp_path / how / "ray", ray, launch="ray", nodes=2, setup=(ON_PATH,))
        plans[how, "ray"] = with_ray(plan)
        plans[how, "direct"] = slurm_plan(tmp_path / how / "direct", STAYS, nodes=2)
    jobs = {key: start(host, plan) for key, plan in plans.items()}
    for key, plan in plans.items():
        until(lambda key=key, plan=plan: "ready True" in tasks_said(plan, jobs[key]), "the begin", seconds=PATIENCE)
    with configured(slurm_lab, KillWait=15):  # time for the batch script of a busy machine to say what becomes of it
        for launch in ("ray", "direct"):
            slurm_lab.run("scontrol", "update", f"JobId={jobs['late', launch].id}", "TimeLimit=0")
            slurm_lab.run("scancel", jobs["cancelled", launch].id)
        seen = {key: wait(host, job, seconds=PATIENCE) for key, job in jobs.items()}
    told = {key: (each.state, each.slurm_state, each.exit_code, each.reason) for key, each in seen.items()}
    assert told["late", "ray"] == told["late", "direct"]
    assert told["late", "ray"] == ("failed", "TIMEOUT", 124, "its time limit was reached, exit code 124")
    assert told["cancelled", "ray"] == told["cancelled", "direct"]
    assert (told["cancelled", "ray"][0], told["cancelled", "ray"][3]) == ("cancelled", "cancelled in Slurm")
    assert told["cancelled", "ray"][2]
    for plan in plans.values():
        wait_until_gone(plan.name)
