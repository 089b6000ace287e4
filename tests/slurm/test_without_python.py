"""Jobs on nodes without python3: the least that a job needs, and what takes more ends it with that as its reason."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from old_python import oldest_python
from slurm_jobs import LabHost, command, slurm_plan, start, tasks_said, wait
from support import HEADER, Project
from test_array import Cluster, ended
from waiting import until

from nemo_runspec.backends.slurm.cluster.job import SlurmJobRef
from nemo_runspec.backends.slurm.render import slurm_programs
from nemo_runspec.plans.model import Plan

pytestmark = needs_slurm

SECRETS = {"TOKEN": "s3cr3t"}
LINE = 'fail=`sed -n "s/^fail: //p" {config}`; echo "task $SLURM_ARRAY_TASK_ID: $fail, token ${#HF_TOKEN}"; exit $fail'
SHELL_HEADER = HEADER.replace('launch = "direct"', f"launch = \"direct\"\n# cmd = '''{LINE}'''")
HEARS = "trap 'echo heard; exit 5' TERM; touch {folder}/begun; while :; do sleep 0.1; done"


@pytest.fixture
def host(slurm_lab_plain: SlurmLab, tmp_path: Path) -> LabHost:
    """Its jobs find no Python, as Slurm gives them this PATH."""
    return LabHost(slurm_lab_plain, path=str(without_python(tmp_path / "bare")))


def without_python(folder: Path) -> Path:
    """A folder for `PATH`: Pythons that are none."""
    folder.mkdir()
    for name in ("python3", "python"):
        command(folder / name, "exit 127")
    return folder


@pytest.fixture
def cluster(project: Project, slurm_lab_plain: SlurmLab, tmp_path: Path, nemotron_process) -> Cluster:
    """Its recipe is a line of shell."""
    top = tmp_path / "cluster"
    project.recipe("t/hello", header=SHELL_HEADER, body="", default="fail: 0\n")
    project.write("env.toml", f'[lab]\nexecutor = "slurm"\ntime = "00:05:00"\nremote_job_dir = "{top}"\n')
    return Cluster(project, slurm_lab_plain, top, nemotron_process)


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
    assert "token 6" in tasks_said(plan, job)
    assert [(one["fate"], one["exit_code"]) for one in attempts(plan)] == [("over", str(code))]
    assert not (Path(plan.job_dir) / "secrets.env").exists()


def test_term_is_handed_to_the_command(host: LabHost, slurm_lab_plain: SlurmLab, tmp_path: Path):
    plan = plan_of(tmp_path / "job", HEARS.format(folder=tmp_path))
    job = start(host, plan, secrets=SECRETS)
    until((tmp_path / "begun").exists, "the command's begin")
    slurm_lab_plain.run("scancel", "--batch", "--signal=TERM", job.id)
    seen = wait(host, job)
    assert (seen.state, seen.exit_code) == ("failed", 5)
    assert tasks_said(plan, job).splitlines().count("heard") == 1
    assert not (Path(plan.job_dir) / "secrets.env").exists()


FALLBACK = """
set -e
export BATCH=$$
nemotron_root={root} nemotron_own={root} nemotron_script=job.sh nemotron_needs='' nemotron_early=''
SLURM_JOB_ID=7
. {fallback}
number=0
while [ $number -lt 200 ]; do
  code=0
  srun bash {root}/job.sh || code=$?
  [ "$code" -eq 7 ] || echo "ended with $code"
  number=$((number + 1))
done
echo "$number steps"
"""


def test_a_signal_that_comes_as_the_step_ends_is_not_taken_for_its_status(tmp_path: Path):
    """bash's `wait` ends with the signal's, whether or not what it waits for has ended by then."""
    tools = tmp_path / "tools"
    tools.mkdir()
    command(tools / "srun", "kill -USR1 $BATCH; exit 7")
    texts = {each.name: each.text for each in slurm_programs()}
    (tmp_path / "fallback").write_text(texts["slurm_fallback.sh"])
    script = FALLBACK.format(root=tmp_path, fallback=tmp_path / "fallback")
    path = f"{tools}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], env={"PATH": path}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.splitlines()[:1] == ["200 steps"], done.stdout + done.stderr
    assert len(list(tmp_path.glob("status/gates-7-0/told.*"))) == 200


SAYS = 'echo "task $SLURM_ARRAY_TASK_ID token ${#TOKEN}"; exit $((SLURM_ARRAY_TASK_ID * 3))'


def test_tasks_of_an_array_that_share_a_directory(host: LabHost, tmp_path: Path):
    plan = plan_of(tmp_path / "job", SAYS, {"array": "0-2%1"})
    job = start(host, plan, secrets=SECRETS)
    seen = [wait(host, SlurmJobRef(f"{job.id}_{task}")) for task in range(3)]
    assert [(one.state, one.exit_code) for one in seen] == [("succeeded", 0), ("failed", 3), ("failed", 6)]
    folder = Path(plan.job_dir)
    logs = "".join(file.read_text() for file in folder.glob("log-*.out"))
    assert sorted(logs.splitlines()) == [f"task {task} token 6" for task in range(3)]
    until(lambda: not (folder / "secrets.env").exists(), "the end of the secrets")


def test_tasks_of_an_array_that_have_directories_of_their_own(cluster, tmp_path: Path):
    bare = without_python(tmp_path / "bare")
    swept = "+run.env.env_vars.HF_TOKEN=hf_arraysecretvalue"
    done = cluster("t", "hello", "--run", "lab", "-m", "fail=0,4", swept, path=str(bare))
    assert done.code == 4, (done.out, done.err)
    records = cluster.records()
    array = records[0]["handle"]["id"].partition("_")[0]
    assert [record["handle"]["id"] for record in records] == [f"{array}_{task}" for task in range(2)]
    assert [ended(record) for record in records] == [("succeeded", 0), ("failed", 4)]
    for task, record in enumerate(records):
        assert f"task {task}: {4 * task}, token 19\n" in cluster("jobs", "logs", record["name"]).out
    assert not list((cluster.top / "jobs").rglob("secrets.env"))


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
