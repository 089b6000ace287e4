"""What a cluster does to jobs beside running them, and that what is said of it is true and of use."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from slurm_jobs import LabHost, closed, command, configured, job_of, put, see, slurm_plan, start, tasks_said, wait
from waiting import until

from nemo_runspec.backends.slurm.client import SlurmProvider
from nemo_runspec.backends.slurm.cluster.job import SlurmJobRef
from nemo_runspec.backends.slurm.cluster.status import query_jobs
from nemo_runspec.backends.slurm.cluster.submit import submit
from nemo_runspec.backends.slurm.observe import collect_results
from nemo_runspec.backends.slurm.observe import job_statuses as look_at
from nemo_runspec.backends.slurm.preflight.checks import fast_checks
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Plan
from nemo_runspec.records.record import code_and_why
from nemo_runspec.source import Layer, Source

pytestmark = needs_slurm

WAITS = "import time; print('begun', flush=True); time.sleep(600)"


@pytest.fixture
def host(slurm_lab: SlurmLab) -> LabHost:
    return LabHost(slurm_lab)


def diagnosis(host: LabHost, plan: Plan, job: SlurmJobRef) -> Diagnosis:
    handle: dict[str, Any] = {**SlurmProvider().make_handle(plan), "id": job.id}
    found = collect_results(host, [handle], look_at(host, [handle]))[0].diagnosis
    assert found is not None
    return found


@pytest.mark.parametrize("witness", ["squeue", "sacct"])
def test_nodes_that_do_not_see_the_directory(slurm_lab: SlurmLab, host: LabHost, tmp_path: Path, witness: str):
    folder = f"{slurm_lab.unshared}/run"
    plan = slurm_plan(tmp_path, "", {"remote_job_dir": folder})
    plan = dataclasses.replace(
        plan, sources={"run.env.remote_job_dir": Source(Layer.PROFILE, "env.toml", 7, "cluster")}
    )
    job = start(host, plan)
    wait(host, job)
    if witness == "sacct":
        until(lambda: slurm_lab.accounted(job.id), "its end in sacct", lambda told: told.startswith("FAILED"))
        host = forgetting(slurm_lab, tmp_path / "forgets")
    seen = see(host, job)
    assert (seen.state, seen.exit_code, seen.signal) == ("failed", None, None)
    assert seen.reason == f"the nodes cannot write to {plan.job_dir}: it was not started, and has no exit code"
    told = diagnosis(host, plan, job)
    assert (told.kind, told.what) == ("storage", seen.reason)
    assert "set remote_job_dir (env.toml:7 [cluster]) to a directory on a file system" in told.remedy
    assert "doctor" in told.remedy


def forgetting(lab: SlurmLab, folder: Path, *programs: str) -> LabHost:
    """A login node whose squeue knows of no job any more, as after MinJobAge."""
    folder.mkdir()
    for name in programs or ("squeue",):
        command(folder / name, "exit 0")
    return LabHost(lab, str(folder))


def test_a_node_that_does_not_take_the_step(slurm_lab: SlurmLab, host: LabHost, tmp_path: Path):
    """Its slurmd has ended after the batch script began, and Slurm has not noticed yet."""
    go = tmp_path / "go"
    lines = f"touch {tmp_path}/here; until [ -e {go} ]; do sleep 0.1; done"
    with configured(slurm_lab, SlurmdTimeout=300):
        plan = slurm_plan(tmp_path, "", {"setup_lines": lines}, nodes=2)
        job = start(host, plan)
        until((tmp_path / "here").exists, "the batch script")
        slurm_lab.stop_daemon("n2")
        go.touch()
        until(lambda: see(host, job).slurm_state, "the job's end", lambda state: state != "RUNNING")
        slurm_lab.start_daemon("n2")
        seen = wait(host, job)
    assert seen.state == "failed"
    told = diagnosis(host, plan, job)
    assert told.kind == "launch"
    assert told.what == "Slurm could not start its tasks: on node n2: Communication connection failure", told
    assert "exclude" in told.remedy


def test_a_job_that_is_held(slurm_lab: SlurmLab, host: LabHost, tmp_path: Path):
    """It has no place in the queue, and nobody knows when it will begin; the job behind it has, once it is closed."""
    with closed(slurm_lab):
        held = start(host, slurm_plan(tmp_path / "a", "", {"additional_parameters": {"hold": True}}))
        free = start(host, slurm_plan(tmp_path / "b", ""))
        seen = until(
            lambda: query_jobs(host, [held, free], positions=True),
            "both",
            lambda told: told[free.id].position is not None,
        )
    assert (seen[held.id].position, seen[held.id].estimated) == (None, None)
    assert seen[held.id].reason == "held: it has no place in the queue until scontrol release lets it go on"
    assert seen[free.id].position == 1


def test_as_many_jobs_as_one_may_have(slurm_lab: SlurmLab, host: LabHost, tmp_path: Path):
    limit = ("sacctmgr", "-i", "modify", "user", "root", "set")
    slurm_lab.submit("sleep 600")
    plan = slurm_plan(tmp_path, "")
    put(host, plan)
    slurm_lab.run(*limit, "MaxSubmitJobs=1")
    try:
        until(lambda: fast_checks(host, plan), "the limit")
        with pytest.raises(UserError) as caught:
            submit(host, job_of(plan))
        errors = [caught.value, fast_checks(host, plan)[0].error()]
    finally:
        slurm_lab.run(*limit, "MaxSubmitJobs=-1")
    for error in errors:
        assert "as many jobs in the queue as you may" in error.what
        assert error.remedy is not None
        assert error.remedy.startswith("wait until one has ended, or cancel one")
        assert "profile" not in error.remedy


def test_a_success_that_slurm_has_put_back(slurm_lab: SlurmLab, host: LabHost, tmp_path: Path):
    plan = slurm_plan(tmp_path, "")
    job = start(host, plan)
    assert wait(host, job).state == "succeeded"
    with closed(slurm_lab):
        slurm_lab.run("scontrol", "requeue", job.id)
        seen = wait(host, job, "queued")
        assert seen.reason.startswith("attempt 1 of it succeeded, and Slurm has put it back into the queue")
        assert seen.restarts == 1


def test_a_failure_that_slurm_has_put_back_is_no_success(slurm_lab: SlurmLab, host: LabHost, tmp_path: Path):
    job = start(host, slurm_plan(tmp_path, "raise SystemExit(3)"))
    assert wait(host, job).state == "failed"
    with closed(slurm_lab):
        slurm_lab.run("scontrol", "requeue", job.id)
        assert "succeeded" not in wait(host, job, "queued").reason


class TestWithoutAccounts:
    """squeue has forgotten the job, and there is no slurmdbd."""

    @pytest.fixture
    def plain(self, slurm_lab_plain: SlurmLab) -> Iterator[SlurmLab]:
        with configured(slurm_lab_plain, KillWait=20):
            yield slurm_lab_plain

    def test_somebody_elses_scancel(self, plain: SlurmLab, tmp_path: Path):
        host, plan = LabHost(plain), slurm_plan(tmp_path, WAITS)
        job = start(host, plan)
        until(lambda: "begun" in tasks_said(plan, job), "the command's begin")
        plain.run("scancel", job.id)
        assert wait(host, job).state == "cancelled"
        seen = see(forgetting(plain, tmp_path / "forgets"), job)
        assert (seen.state, seen.exit_code) == ("failed", 143)
        assert seen.reason == (
            "Slurm ended it, and no longer says why: somebody's scancel, perhaps; "
            "this cluster keeps no accounts (slurmdbd), so that nobody can tell"
        )

    def test_somebody_elses_scancel_while_it_waits(self, plain: SlurmLab, tmp_path: Path):
        host, plan = LabHost(plain), slurm_plan(tmp_path, WAITS)
        with closed(plain):
            job = start(host, plan)
            plain.run("scancel", job.id)
            assert wait(host, job).state == "cancelled"
        seen = see(forgetting(plain, tmp_path / "forgets"), job)
        assert seen.state == "lost"
        assert seen.exit_code is None
        assert "it had not begun, so that it may have been cancelled; this cluster keeps no accounts" in seen.reason


@pytest.mark.parametrize(
    ("code", "why", "said"),
    [
        (255, "exit code 255", ", exit code 255"),
        (143, "exit code 143 (as after signal 15, SIGTERM)", ", exit code 143 (as after signal 15, SIGTERM)"),
        (25, "exit code 255", ", exit code 25: exit code 255"),
        (3, "rank 1 cannot import x", ", exit code 3: rank 1 cannot import x"),
        (None, "the nodes cannot write", ": the nodes cannot write"),
        (0, "", ", exit code 0"),
        (None, "", ""),
    ],
)
def test_an_exit_code_is_said_once(code: int | None, why: str, said: str):
    assert code_and_why(code, why) == said


def test_what_the_batch_shell_reads_is_no_evidence(slurm_lab: SlurmLab, host: LabHost, tmp_path: Path):
    plan = slurm_plan(tmp_path, "raise SystemExit(255)")
    job = start(host, plan)
    wait(host, job)
    told = diagnosis(host, plan, job)
    assert "batch.sh" not in told.evidence
