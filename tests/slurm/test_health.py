"""The health check on a real Slurm: a bad node is named, and the job runs without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from labs.slurm.cluster import NODES, SlurmLab
from labs.slurm.fixtures import needs_slurm
from slurm_jobs import LabHost, command, configured, slurm_plan, start, tasks_said, wait
from waiting import until

from nemo_runspec.backends.slurm.cluster.job import SlurmJobRef
from nemo_runspec.backends.slurm.observe import exclude_and_release
from nemo_runspec.plans.model import Plan

pytestmark = needs_slurm

WHERE = "import os; print(os.uname()[1])"
CHECKED = {"health_check": True}


@pytest.fixture(scope="module")
def lab(slurm_lab_plain: SlurmLab) -> Iterator[SlurmLab]:
    """With time: so long has a batch script that is ended to release the job it has put back."""
    with configured(slurm_lab_plain, KillWait=20):
        yield slurm_lab_plain


@pytest.fixture
def host(lab: SlurmLab) -> LabHost:
    return LabHost(lab)


def own_folder(lab: SlurmLab, node: str) -> Path:
    """What a node sees as `lab.unshared`."""
    return lab.base / "nodes" / node / "local"


def batch_said(plan: Plan, job: SlurmJobRef) -> list[str]:
    """The check's lines of a job, all attempts."""
    lines = (Path(plan.job_dir) / f"sbatch_{plan.name}_{job.id}.out").read_text().splitlines()
    return [line.removeprefix("nemotron: health check: ") for line in lines if "nemotron: health check: " in line]


def bad_nodes(plan: Plan) -> list[list[str]]:
    return [line.split("\t") for line in (Path(plan.job_dir) / "status" / "bad-nodes").read_text().splitlines()]


def nodes_used(plan: Plan, job: SlurmJobRef, attempt: int) -> list[str]:
    said = tasks_said(plan, job, attempt).splitlines()
    return sorted(line.split()[-1] for line in said if not line.startswith("nemotron"))


def test_healthy_nodes(host: LabHost, tmp_path: Path):
    plan = slurm_plan(tmp_path, WHERE, CHECKED, nodes=2, processes=2)
    job = start(host, plan)
    assert wait(host, job).state == "succeeded"
    assert nodes_used(plan, job, 0) == ["n1", "n1", "n2", "n2"]
    assert [line.partition(",")[0] for line in batch_said(plan, job)] == ["2 node(s) are fine"]
    assert "nemotron: health check: 2 node(s) are fine" in tasks_said(plan, job)
    left = {path.name for path in (Path(plan.job_dir) / "status").iterdir()}
    assert not {name for name in left if name.startswith(("bad", "health", "held"))}


def test_a_mount_that_one_node_lacks(host: LabHost, lab: SlurmLab, tmp_path: Path):
    image = lab.image(f"health-{tmp_path.name}")
    for node in ("n1", "n3", "n4"):
        (own_folder(lab, node) / "data").mkdir(exist_ok=True)
    # With one node bad, the other has a twelfth of this to begin.
    patience = {"setup_lines": "export NEMOTRON_HEALTH_SECONDS=180"}
    mounts = [f"{lab.unshared}/data:/data", "/usr:/host:ro"]
    profile = {**CHECKED, **patience, "container_image": image, "mounts": mounts}
    plan = slurm_plan(tmp_path, WHERE, profile, nodes=2)
    job = start(host, plan)
    seen = wait(host, job, seconds=240)
    assert (seen.state, seen.restarts) == ("succeeded", 1)
    assert "n2" not in nodes_used(plan, job, 1)
    ((node, attempt, reason),) = bad_nodes(plan)
    assert (node, attempt) == ("n2", "0")
    assert "No such file or directory" in reason
    assert f"bad node n2: {reason}" in tasks_said(plan, job, 0)


@pytest.fixture
def walled_off(lab: SlurmLab) -> Iterator[str]:
    """A node whose ports nobody can connect to, but for Slurm's own."""
    rule = ("INPUT", "-p", "tcp", "--dport", "32768:65535", "-m", "conntrack", "--ctstate", "NEW", "-j", "DROP")
    lab.run("srun", "--nodelist=n2", "iptables", "-A", *rule)
    yield "n2"
    lab.reset()
    lab.run("srun", "--nodelist=n2", "iptables", "-D", *rule)


def test_a_node_that_the_others_cannot_reach(host: LabHost, walled_off: str, tmp_path: Path):
    plan = slurm_plan(tmp_path, WHERE, CHECKED, nodes=3)
    job = start(host, plan)
    seen = wait(host, job, seconds=240)
    assert (seen.state, seen.restarts) == ("succeeded", 1)
    assert nodes_used(plan, job, 1) == ["n1", "n3", "n4"]
    ((node, _, reason),) = bad_nodes(plan)
    assert node == walled_off
    assert "cannot be reached" in reason


def test_nodes_that_hang_or_lack_a_gpu_until_too_few_are_left(host: LabHost, lab: SlurmLab, tmp_path: Path):
    answers = {"n1": "seq 7", "n2": "sleep 600"}
    for node in NODES:
        program = own_folder(lab, node) / "bin" / "nvidia-smi"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/bash\n{answers.get(node, 'seq 8')}\n")
        program.chmod(0o755)
    settings = f"export PATH={lab.unshared}/bin:$PATH NEMOTRON_HEALTH_SECONDS=36"  # n3 and n4 wait a third of it for n2
    profile = {**CHECKED, "gpus_per_node": 8, "setup_lines": settings, "retries": 3}
    plan = slurm_plan(tmp_path, WHERE, profile, nodes=3)
    job = start(host, plan)
    seen = wait(host, job, seconds=240)
    assert (seen.state, seen.exit_code, seen.restarts) == ("failed", 1, 1)
    assert bad_nodes(plan) == [
        ["n1", "0", "7 GPUs, and 8 are asked for"],
        ["n2", "1", "no answer while it was asked for: GPUs (nvidia-smi)"],
    ]
    assert "bad node n2: no answer" in seen.reason
    assert "its partition has 2 node(s) without the bad ones, and 3 are needed" in seen.reason


def test_a_check_that_slurm_ends_blames_no_node(host: LabHost, lab: SlurmLab, tmp_path: Path):
    """The nodes have not answered then. Nor does what stands after setup_lines begin that Slurm has ended."""
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    command(program, f"touch {tmp_path}/asked-$(uname -n); sleep 600")
    setup = {
        "check": f"export PATH={program.parent}:$PATH NEMOTRON_HEALTH_SECONDS=600",
        "setup": f"touch {tmp_path}/asked-setup; sleep 600",
    }
    plans = {
        name: slurm_plan(tmp_path / name, WHERE, {**CHECKED, "gpus_per_node": 8, "setup_lines": lines}, nodes=2)
        for name, lines in setup.items()
    }
    jobs = {name: start(host, plan) for name, plan in plans.items()}
    until(lambda: len(list(tmp_path.glob("asked-*"))) == 3, "the check on two nodes, and the setup")
    lab.run("scancel", *(job.id for job in jobs.values()))
    for name, job in jobs.items():
        assert wait(host, job).state == "cancelled"
        assert not [line for line in batch_said(plans[name], job) if "bad node" in line]
        assert not (Path(plans[name].job_dir) / "status" / "bad-nodes").exists()
    assert batch_said(plans["setup"], jobs["setup"]) == []


def test_what_a_killed_batch_script_leaves_held_is_released(host: LabHost, lab: SlurmLab, tmp_path: Path):
    job = SlurmJobRef(lab.submit("hostname", "--hold", "--nodes=1"), str(tmp_path))
    assert exclude_and_release(host, job) == ""
    assert lab.state(job.id) == "PENDING"
    held = tmp_path / "status" / "held"
    held.parent.mkdir()
    held.write_text("n1,n3\n")
    assert exclude_and_release(host, job) == "n1,n3"
    lab.wait_for(job.id, "COMPLETED")
    assert lab.output(job.id) == "n2\n"
    assert not held.exists()
