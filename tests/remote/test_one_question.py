"""`jobs status` of any number of jobs with progress: one question to a machine, pages of one list of a cloud.

Questions are counted where they arrive: behind a real sshd, and in the servers of the clouds.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from job_records import copies, record
from labs.lepton.lab import LeptonLab
from labs.runai.server import RunaiLab
from labs.slurm.fixtures import needs_slurm
from labs.web import WebLab
from slurm_project import Cluster
from support import Outcome, Project, process
from waiting import until

from nemo_runspec.backends.cloud.status import SAMPLE
from nemo_runspec.records import JobStore

sys.path.insert(0, str(Path(__file__).parents[1] / "lepton"))
sys.path.insert(0, str(Path(__file__).parents[1] / "dgxcloud"))
from lepton_jobs import planted
from lepton_project import ENV
from runai_workloads import handle as runai_handle
from runai_workloads import profile as runai_profile
from runai_workloads import workload

RUNNING, WAITING = 12, 300
"""Tasks on the lab's Slurm. One that runs takes processes of this machine."""

MANY, PAGE = 1000, 500
"""Jobs on a cloud; rows of its list that one request brings."""


def with_progress(id: str, job_dir: Path) -> dict[str, str]:
    """The handle of a task of Slurm's that has written how far it is."""
    job_dir.mkdir(parents=True)
    (job_dir / "metrics.jsonl").write_text('{"step": 1}\n{"step": 30, "total_steps": 200, "loss": 1.5}\n')
    return {"id": id, "job_dir": str(job_dir)}


@needs_slurm
def test_slurm_is_asked_once_over_the_connection_that_is_there(cluster: Cluster, tmp_path: Path) -> None:
    first = cluster.batch("import time; time.sleep(600)")
    one = JobStore(cluster.project.state / "jobs").by_name(first)
    running = cluster.lab.submit("sleep 600", f"--array=0-{RUNNING - 1}")
    waiting = cluster.lab.submit("true", f"--array=0-{WAITING - 1}", "--hold")
    states = ("squeue", "--noheader", "--array", f"--jobs={running}", "--format=%T")
    until(lambda: cluster.lab.run(*states).stdout.split(), "the tasks", lambda seen: seen == ["RUNNING"] * RUNNING)
    ids = [*(f"{running}_{n}" for n in range(RUNNING)), *(f"{waiting}_{n}" for n in range(WAITING))]
    names = copies(
        JobStore(cluster.project.state / "jobs"), one, [with_progress(id, tmp_path / "there" / id) for id in ids]
    )
    for asked_for in (names[:1], names, []):
        before = cluster.lab.sshd.commands(), cluster.lab.sshd.connections()
        told = cluster.nemotron("jobs", "status", *asked_for, "--json").succeeds().json
        assert (cluster.lab.sshd.commands() - before[0], cluster.lab.sshd.connections() - before[1]) == (1, 0)
    by_name = {each["name"]: each for each in told}
    assert [by_name[name]["state"] for name in names] == ["running"] * RUNNING + ["queued"] * WAITING
    assert {by_name[name]["progress"]["step"] for name in names[:RUNNING]} == {30}
    assert by_name[first]["state"] == "running"


@pytest.mark.slow
def test_lepton_is_asked_for_pages_of_its_list(lepton_lab: LeptonLab, project: Project) -> None:
    """And of a bounded number of those that are to start, what they wait for."""
    project.write("env.toml", ENV)
    handles = planted(lepton_lab, MANY, "Running")
    one = record("one-1123-aaaaaaaa", ("planned", "queued", "running"), executor="lepton", handle=handles[0])
    names = copies(JobStore(project.state / "jobs"), one, handles)
    assert requests(project, names, "running", lepton_lab) == MANY / PAGE
    for job in lepton_lab.jobs:
        job.state = "Starting"
    assert requests(project, names, "starting", lepton_lab) <= MANY / PAGE + 2 * SAMPLE


@pytest.mark.slow
def test_dgx_cloud_is_asked_for_pages_of_its_list(runai_lab: RunaiLab, project: Project) -> None:
    """One more request is for a token. Of a bounded number that is pending it is asked what they wait for."""
    runai_profile(project, runai_lab)
    jobs = [workload(runai_lab, f"many-1123-{number:08x}", "Running") for number in range(MANY)]
    profile = {"profile": "dgx", "env_file": str(project.env_file)}
    handles = [runai_handle(runai_lab, job.name, id=job.id, **profile) for job in jobs]
    one = record("one-1123-aaaaaaaa", ("planned", "queued", "running"), executor="dgxcloud", handle=handles[0])
    names = copies(JobStore(project.state / "jobs"), one, handles)
    labs = (runai_lab, runai_lab.kube)
    assert requests(project, names, "running", *labs) == 1 + MANY / PAGE
    for job in jobs:
        job.phase = "Pending"
    assert requests(project, names, "queued", *labs) <= 1 + MANY / PAGE + 2 * SAMPLE


def requests(project: Project, names: Sequence[str], state: str, *labs: WebLab) -> int:
    """How many it takes to hear how these jobs are, all of them in this state."""
    for lab in labs:
        lab.calls.clear()
    extra = labs[0].environment() if isinstance(labs[0], LeptonLab) else {}
    told: Outcome = process(project, "jobs", "status", *names, "--json", **extra)
    assert [each["state"] for each in told.succeeds().json] == [state] * len(names)
    return sum(len(lab.calls) for lab in labs)
