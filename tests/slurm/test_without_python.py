"""Jobs on nodes without python3: the least that a job needs, and what takes more ends it with that as its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from old_python import oldest_python
from slurm_jobs import LabHost, command, slurm_plan, start, tasks_said, wait
from waiting import until

from nemo_runspec.plans.model import Plan

pytestmark = needs_slurm

SECRETS = {"TOKEN": "s3cr3t"}
HEARS = "trap 'echo heard; exit 5' TERM; touch {folder}/begun; while :; do sleep 0.1; done"


@pytest.fixture
def host(slurm_lab_plain: SlurmLab, tmp_path: Path) -> LabHost:
    """Its jobs find no Python, as Slurm gives them this PATH."""
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("python3", "python"):
        command(bare / name, "exit 127")
    return LabHost(slurm_lab_plain, path=str(bare))


def plan_of(folder: Path, line: str, profile: dict[str, Any] | None = None, **values: Any) -> Plan:
    folder.mkdir()
    return slurm_plan(folder, "", profile, cmd=line, **values)


def attempts(plan: Plan) -> list[dict[str, str]]:
    lines = (Path(plan.job_dir) / "status" / "attempts").read_text().splitlines()
    return [dict(word.split("=", 1) for word in line.split()[:5]) for line in lines]


@pytest.mark.parametrize("code", [0, 7])
def test_a_job_runs_and_its_exit_code_arrives(host: LabHost, tmp_path: Path, code: int):
    plan = plan_of(tmp_path / "job", f"echo token ${{#TOKEN}}; exit {code}")
    job = start(host, plan, secrets=SECRETS)
    seen = wait(host, job)
    assert (seen.state, seen.exit_code) == ("failed" if code else "succeeded", code)
    assert "[rank0] token 6" in tasks_said(plan, job)
    assert [(one["fate"], one["exit_code"]) for one in attempts(plan)] == [("over", str(code))]
    assert not (Path(plan.job_dir) / "secrets.env").exists()


def test_term_is_handed_to_the_command(host: LabHost, slurm_lab_plain: SlurmLab, tmp_path: Path):
    plan = plan_of(tmp_path / "job", HEARS.format(folder=tmp_path))
    job = start(host, plan, secrets=SECRETS)
    until((tmp_path / "begun").exists, "the command's begin")
    slurm_lab_plain.run("scancel", "--batch", "--signal=TERM", job.id)
    seen = wait(host, job)
    assert (seen.state, seen.exit_code) == ("failed", 5)
    assert tasks_said(plan, job).splitlines().count("[rank0] heard") == 1
    assert not (Path(plan.job_dir) / "secrets.env").exists()


def test_what_takes_python_ends_the_job_before_its_command(host: LabHost, tmp_path: Path):
    profile = {"retries": 1, "resume": True, "stall_timeout": "1h", "health_check": True}
    plan = plan_of(tmp_path / "job", f"touch {tmp_path}/began", profile)
    job = start(host, plan, secrets=SECRETS)
    seen = wait(host, job)
    said = "the node has no python3 (3.6 or later) for resume, retries, stall_timeout, health_check"
    assert (seen.state, seen.exit_code, seen.reason) == ("failed", 1, f"{said}, exit code 1")
    assert [marker.reason_code for marker in seen.markers] == ["python"]
    assert [(one["fate"], one["reason_code"]) for one in attempts(plan)] == [("over", "python")]
    assert not (tmp_path / "began").exists()
    assert not (Path(plan.job_dir) / "secrets.env").exists()


def test_setup_lines_that_end_the_batch_script(host: LabHost, tmp_path: Path):
    plan = plan_of(tmp_path / "job", "true", {"setup_lines": "exit 0"})
    seen = wait(host, start(host, plan))
    assert (seen.state, seen.exit_code) == ("failed", 1)
    assert seen.reason == "setup_lines ended the batch script before its command, exit code 1"


def test_the_oldest_python_does(slurm_lab_plain: SlurmLab, tmp_path: Path):
    """On the host and, as there is no container, for the job script too; in a locale of its own."""
    python = tmp_path / "old" / "python3"
    python.parent.mkdir()
    python.symlink_to(oldest_python())
    host = LabHost(slurm_lab_plain, path=str(python.parent), LC_ALL="C", NOTE="naïve")
    line = 'echo "$NOTE" on "$NEMOTRON_ATTEMPT"; exit $((5 - 5 * NEMOTRON_ATTEMPT))'
    plan = plan_of(tmp_path / "job", line, {"retries": 1, "health_check": True}, nodes=2)
    job = start(host, plan, secrets={"TOKEN": "sécret"})
    seen = wait(host, job)
    assert (seen.state, seen.restarts) == ("succeeded", 1), tasks_said(plan, job)
    assert sorted(tasks_said(plan, job, 1).splitlines()[-2:]) == ["[rank0] naïve on 1", "[rank1] naïve on 1"]
    assert [one["fate"] for one in attempts(plan)] == ["retried", "over"]
