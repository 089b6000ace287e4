"""Every option that a profile asks for is one of the job: as `scontrol show job` has it, else by what it does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from slurm_jobs import LabHost, closed, job_of, put, see, slurm_plan, start, tasks_said, wait
from waiting import until

from nemo_runspec.backends.slurm.cluster.submit import submit
from nemo_runspec.backends.slurm.executor import job_name, sbatch_script
from nemo_runspec.backends.slurm.fields import FIELDS

pytestmark = needs_slurm

SHOWN: dict[str, tuple[dict[str, Any], str]] = {
    "account": ({"account": "acme"}, "Account=acme"),
    "partition": ({"partition": "cpu"}, "Partition=cpu"),
    "time": ({"time": "1-02:03:00"}, "TimeLimit=1-02:03:00"),
    "qos": ({"qos": "short"}, "QOS=short"),
    "job_name_prefix": ({"job_name_prefix": "acme-team."}, r"JobName=acme-team\.test-"),
    "dependencies": ({"dependencies": ["OTHER"]}, r"Dependency=afterok:OTHER\("),
    "dependency_type": ({"dependencies": ["OTHER"], "dependency_type": "afterany"}, r"Dependency=afterany:OTHER\("),
    "nodes": ({"nodes": 2}, "NumNodes=2"),
    "gpus_per_node": ({"gpus_per_node": 3}, "TresPerNode=gres:gpu:3"),
    "nproc_per_node": ({"nproc_per_node": 3}, "NumTasks=3 "),
    "cpus_per_task": ({"cpus_per_task": 5}, "CPUs/Task=5"),
    "cpus_per_gpu": ({"gpus_per_task": 2, "cpus_per_gpu": 4}, "CpusPerTres=gres:gpu:4"),
    "gpus_per_task": ({"gpus_per_task": 2}, "TresPerTask=gres:gpu:2"),
    "mem": ({"mem": "7G"}, "MinMemoryNode=7G"),
    "mem_per_cpu": ({"mem_per_cpu": "3G"}, "MinMemoryCPU=3G"),
    "mem_per_gpu": ({"gpus_per_node": 1, "mem_per_gpu": "2G"}, "MemPerTres=gres:gpu:2048"),
    "exclusive": ({"exclusive": True}, "OverSubscribe=NO"),
    "exclusive=user": ({"exclusive": "user"}, "OverSubscribe=USER"),
    "gres": ({"gres": "gpu:2"}, "TresPerNode=gres:gpu:2"),
    "constraint": ({"constraint": "FEATURE"}, "Features=FEATURE"),
    "exclude": ({"exclude": "n2,n4"}, r"ExcNodeList=n\[2,4\]"),
    "network": ({"network": "sn_all"}, "Network=sn_all"),
    "array": ({"array": "0-7%2"}, "ArrayTaskId=0-7%2"),
    "comment": ({"comment": "first of many"}, "Comment=first of many"),
    "no_requeue": ({"additional_parameters": {"no_requeue": True}}, "Requeue=0"),
    "no-requeue": ({"additional_parameters": {"no-requeue": True}}, "Requeue=0"),
    "requeue": ({"additional_parameters": {"requeue": True}}, "Requeue=1"),
    "as NeMo-Run": ({}, "Requeue=1"),
    "reservation": ({"additional_parameters": {"reservation": "KEPT"}}, "Reservation=KEPT"),
    "mail_type": ({"additional_parameters": {"mail_type": "END", "mail-user": "me@x.org"}}, "MailUser=me@x.org"),
    "nice": ({"additional_parameters": {"nice": 33}}, "Nice=33"),
    "nodelist": ({"additional_parameters": {"nodelist": "n3"}}, "ReqNodeList=n3"),
    "deadline": ({"additional_parameters": {"deadline": "now+3days"}}, r"Deadline=\d"),
}
"""Keys of a profile, and what is looked for in `scontrol show job`."""

BY_EFFECT = {
    "run_partition": "test_slurm_fields", "batch_partition": "test_slurm_fields",
    "retries": "test_attempts", "resume": "test_attempts", "max_restarts": "test_attempts", "signal": "test_attempts",
    "additional_parameters": "above", "segment": "Slurm 23.11 or later has it", "open_mode": "below",
    "container_image": "test_pyxis", "mounts": "test_pyxis", "container_env": "test_pyxis", "srun_args": "test_pyxis",
    "setup_lines": "test_diagnose", "memory_measure": "below", "packager": "test_cluster_stage",
    "health_check": "test_health", "stall_timeout": "test_stall", "stall_action": "test_stall",
}  # fmt: skip
"""Keys that `scontrol show job` has no line for, and where their effect is looked at."""


def test_no_key_is_forgotten():
    connection = {"tunnel", "host", "user", "port", "identity", "accept_new_host_key", "remote_job_dir"}
    of_builds = {field.name for field in FIELDS if field.name.startswith("build_")}
    assert {field.name for field in FIELDS} <= {*SHOWN, *BY_EFFECT, *connection, *of_builds}


@pytest.mark.parametrize("key", SHOWN)
def test_what_a_profile_asks_for_is_the_jobs(slurm_lab: SlurmLab, tmp_path: Path, key: str):
    profile, line = SHOWN[key]
    other = slurm_lab.submit("true", "--hold") if "OTHER" in line else ""
    if "KEPT" in line:
        slurm_lab.run(
            "scontrol", "create", "reservation", "ReservationName=KEPT", "StartTime=now", "Duration=600",
            "Users=root", "Nodes=n4", "Flags=FLEX",
        )  # fmt: skip
    if "FEATURE" in line:
        for node in ("n1", "n2"):
            slurm_lab.run("scontrol", "update", f"NodeName={node}", "AvailableFeatures=FEATURE")
    profile = {name: [other] if value == ["OTHER"] else value for name, value in profile.items()}
    plan = slurm_plan(tmp_path, "", profile, nodes=profile.get("nodes", 1), **_processes(profile))
    host = LabHost(slurm_lab)
    put(host, plan)
    with closed(slurm_lab, str(profile.get("partition", "batch"))):
        job = submit(host, job_of(plan)).id
        shown = slurm_lab.run("scontrol", "show", "job", job).stdout
        slurm_lab.run("scancel", job)
    try:
        assert re.search(line.replace("OTHER", other), shown), shown
    finally:
        if "KEPT" in line:
            slurm_lab.run("scontrol", "delete", "ReservationName=KEPT")
        if "FEATURE" in line:
            for node in ("n1", "n2"):
                slurm_lab.run("scontrol", "update", f"NodeName={node}", "AvailableFeatures=", check=False)


def _processes(profile: dict[str, Any]) -> dict[str, Any]:
    return {"processes": profile["nproc_per_node"]} if "nproc_per_node" in profile else {}


def test_a_job_that_is_not_to_be_requeued(slurm_lab: SlurmLab, tmp_path: Path):
    """`no_requeue`: where its node fails, the job does."""
    script = "import os, time; print('attempt', os.environ.get('SLURM_RESTART_COUNT'), flush=True); time.sleep(600)"
    plan = slurm_plan(tmp_path, script, {"additional_parameters": {"no-requeue": True}})
    host = LabHost(slurm_lab)
    job = start(host, plan)
    until(lambda: "attempt" in tasks_said(plan, job), "the command's begin")
    slurm_lab.set_node_down(see(host, job).nodes)
    seen = wait(host, job)
    assert (seen.state, seen.restarts) == ("failed", 0)
    assert "a node failed" in seen.reason


@pytest.mark.parametrize(("mode", "attempts"), [("append", 2), ("truncate", 1)])
def test_what_becomes_of_a_log_when_the_job_is_requeued(slurm_lab: SlurmLab, tmp_path: Path, mode: str, attempts: int):
    script = "import os; raise SystemExit(0 if os.environ.get('SLURM_RESTART_COUNT') else 3)"
    plan = slurm_plan(tmp_path, script, {"open_mode": mode, "retries": 1, "memory_measure": True})
    host = LabHost(slurm_lab)
    job = start(host, plan)
    assert wait(host, job).state == "succeeded"
    log = (Path(plan.job_dir) / f"sbatch_{job_name(plan)}_{job.id}.out").read_text(errors="replace")
    assert len(re.findall(r"^nodes=\(", log, re.MULTILINE)) == attempts
    assert "nvidia-smi" in Path(sbatch_script(plan)).read_text()
