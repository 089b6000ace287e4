"""A job is submitted exactly once, though the controller hangs or stops, and whoever is killed at whatever step."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from slurm_jobs import LabHost, job_of, jobs_called, put, shim, slurm_plan, wait
from waiting import until

from nemo_runspec.backends.slurm.cluster.job import SlurmJobRef
from nemo_runspec.backends.slurm.cluster.submit import NotSubmitted, SlurmSubmission, Submitted, find, submit
from nemo_runspec.backends.slurm.executor import job_name
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Plan

pytestmark = needs_slurm
STEPS = ("before-squeue", "after-squeue", "before-sbatch", "after-sbatch")


@pytest.fixture
def host(slurm_lab: SlurmLab) -> LabHost:
    return LabHost(slurm_lab)


@pytest.fixture
def plan(host: LabHost, tmp_path: Path) -> Plan:
    made = slurm_plan(tmp_path, "print('ran')")
    put(host, made)
    return made


def test_once_and_adopted_ever_after(slurm_lab: SlurmLab, host: LabHost, plan: Plan):
    first = submit(host, job_of(plan))
    again = submit(host, job_of(plan))
    assert (first.adopted, again.adopted, again.id) == (False, True, first.id)
    assert wait(host, SlurmJobRef(first.id, plan.job_dir)).state == "succeeded"
    assert submit(host, job_of(plan)).id == first.id
    assert jobs_called(slurm_lab, job_name(plan)) == [first.id]


def test_each_witness_is_enough(slurm_lab: SlurmLab, host: LabHost, plan: Plan, tmp_path: Path):
    """Our own note of the id is lost; the job is found by what else knows it, even where its directory is gone."""
    first = submit(host, job_of(plan))
    wait(host, SlurmJobRef(first.id, plan.job_dir))
    by_name = ("sacct", "--noheader", "--allocations", f"--name={job_name(plan)}", "--format=JobID")
    until(lambda: slurm_lab.run(*by_name).stdout.split(), "its name in sacct", lambda seen: seen == [first.id])
    folder, away = Path(plan.job_dir), tmp_path / "away"
    for witness in ("squeue", "sacct", "gates"):
        (folder / ".slurm_id").unlink()
        if witness != "gates":
            (folder / "status").rename(away)
        found = submit(LabHost(slurm_lab, blinded(tmp_path / witness, {"squeue", "sacct"} - {witness})), job_of(plan))
        assert (found.id, found.adopted) == (first.id, True), witness
        if away.exists():
            away.rename(folder / "status")
    shutil.rmtree(folder)
    assert find(host, job_of(plan)) == Submitted(first.id, adopted=True)
    knows_nothing = LabHost(slurm_lab, blinded(tmp_path / "all", {"squeue", "sacct"}))
    assert find(knows_nothing, job_of(plan)) is None


def blinded(folder: Path, commands: set[str]) -> str:
    """A folder for `PATH` whose commands know of no job."""
    folder.mkdir()
    for command in commands:
        (folder / command).write_text("#!/bin/sh\nexit 0\n")
        (folder / command).chmod(0o755)
    return str(folder)


def test_to_look_is_not_to_submit(slurm_lab: SlurmLab, host: LabHost, plan: Plan, tmp_path: Path):
    asked = SlurmSubmission(job_name(plan), plan.job_dir)
    assert find(host, asked) is None
    assert jobs_called(slurm_lab, job_name(plan)) == []
    assert find(host, SlurmSubmission("never-submitted", str(tmp_path / "none"))) is None
    first = submit(host, job_of(plan))
    host.calls = 0
    assert find(host, asked) == Submitted(first.id, adopted=True)
    assert host.calls == 1
    (tmp_path / "squeue").write_text("#!/bin/sh\necho slurm_load_jobs error: Unexpected message received\nexit 1\n")
    (tmp_path / "squeue").chmod(0o755)
    Path(plan.job_dir, ".slurm_id").unlink()
    for folder in (plan.job_dir, str(tmp_path / "none")):
        with pytest.raises(NotSubmitted, match="Unexpected message received"):
            find(LabHost(slurm_lab, str(tmp_path)), SlurmSubmission(job_name(plan), folder))


def test_two_at_once(slurm_lab: SlurmLab, host: LabHost, plan: Plan):
    found: list[str] = []
    callers = [
        threading.Thread(target=lambda: found.append(submit(LabHost(slurm_lab), job_of(plan)).id), daemon=True)
        for _ in range(5)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(120)
    assert len(found) == 5
    assert jobs_called(slurm_lab, job_name(plan)) == [found[0]]
    assert set(found) == {found[0]}


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step(slurm_lab: SlurmLab, plan: Plan, tmp_path: Path, step: str):
    """The caller is killed there, and another submits at once, while what the first began still goes on."""
    shims = shim(tmp_path / "shims", step)
    first = caller(slurm_lab, plan, shims)
    until((shims / f"at-{step}").exists, f"the first at {step}")
    first.kill()
    first.wait()
    second = caller(slurm_lab, plan, None)
    looks = ThreadPoolExecutor(1).submit(find, LabHost(slurm_lab), SlurmSubmission(job_name(plan), plan.job_dir))
    (shims / "go").touch()
    assert second.wait(120) == 0
    assert second.stdout is not None
    found = jobs_called(slurm_lab, job_name(plan))
    assert found == [second.stdout.read().strip()]
    assert looks.result(120) == Submitted(found[0], adopted=True)


@pytest.mark.parametrize("step", STEPS)
def test_all_of_it_killed_at_any_step(slurm_lab: SlurmLab, plan: Plan, tmp_path: Path, step: str):
    """The caller and what it began on the cluster, as when the login node is restarted."""
    shims = shim(tmp_path / "shims", step)
    first = caller(slurm_lab, plan, shims)
    until((shims / f"at-{step}").exists, f"the first at {step}")
    end_session(first.pid)
    first.wait()
    submitted = jobs_called(slurm_lab, job_name(plan))
    found = find(LabHost(slurm_lab), SlurmSubmission(job_name(plan), plan.job_dir))
    assert ([found.id] if found else []) == submitted
    assert bool(submitted) == (step == "after-sbatch")
    second = caller(slurm_lab, plan, None)
    assert second.wait(120) == 0
    assert second.stdout is not None
    assert jobs_called(slurm_lab, job_name(plan)) == [second.stdout.read().strip()]


def test_what_the_login_shell_sets_does_not_win(slurm_lab: SlurmLab, tmp_path: Path):
    wrong = {
        "SBATCH_PARTITION": "cpu", "SBATCH_TIMELIMIT": "9", "SBATCH_JOB_NAME": "other", "SLURM_NTASKS": "3",
        "SLURM_MEM_PER_NODE": "5", "SBATCH_WAIT": "1", "TOKEN": "hidden", "SQUEUE_FORMAT": "%u", "SQUEUE_STATES": "PD",
    }  # fmt: skip
    host = LabHost(slurm_lab, **wrong)
    plan = slurm_plan(tmp_path, "import os; print(os.environ.get('TOKEN'))", {"partition": "batch"})
    put(host, plan)
    job = submit(host, job_of(plan, hidden=("TOKEN",)))
    seen = wait(host, SlurmJobRef(job.id, plan.job_dir))
    assert (seen.state, seen.partition) == ("succeeded", "batch")
    shown = slurm_lab.run("scontrol", "show", "job", job.id).stdout
    assert f"JobName={job_name(plan)}" in shown
    assert "TimeLimit=00:05:00" in shown
    log = Path(plan.job_dir) / f"log-{job_name(plan)}_{job.id}_0.out"
    assert log.read_text() == "None\n"


def test_what_the_profile_leaves_open_the_login_shell_may_say(slurm_lab: SlurmLab, tmp_path: Path):
    host = LabHost(slurm_lab, SBATCH_PARTITION="cpu")
    plan = slurm_plan(tmp_path, "")
    put(host, plan)
    job = submit(host, job_of(plan))
    assert wait(host, SlurmJobRef(job.id, plan.job_dir)).partition == "cpu"


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"account": "nobody"}, ["account", "your accounts: acme"]),
        ({"account": "idle"}, ["you may not use the account", "your accounts: acme"]),
        ({"qos": "huge"}, ["QoS", "your QoS: ", "short"]),
        ({"partition": "none-such"}, ["partition", "batch (4 nodes, up to 7-00:00:00, gpu:8)", "interactive"]),
        (
            {"partition": "interactive", "time": "05:00:00"},
            ["time limit", "interactive (4 nodes, at most 2 for a job, up to 4:00:00"],
        ),
        ({"qos": "short", "time": "00:30:00"}, ["limit", "qos"]),
        ({"gpus_per_node": 9}, ["gpus_per_node"]),
        ({"mem": "2T"}, ["mem"]),
        ({"constraint": "blue"}, ["feature", "constraint"]),
        ({"gres": "tpu:1"}, ["gres"]),
        ({"additional_parameters": {"reservation": "none"}}, ["reservation"]),
        ({"additional_parameters": {"none_such": "1"}}, ["unrecognized option"]),
    ],
)
def test_a_refusal_in_words(slurm_lab: SlurmLab, host: LabHost, tmp_path: Path, env: dict, words: list[str]):
    plan = slurm_plan(tmp_path, "", env)
    put(host, plan)
    with pytest.raises(UserError) as caught:
        submit(host, job_of(plan))
    assert not isinstance(caught.value, NotSubmitted)
    for word in words:
        assert word in str(caught.value)
    asked = ("squeue", "--noheader", "--states=all", f"--name={job_name(plan)}", "--format=%r")
    assert set(slurm_lab.run(*asked).stdout.split()) <= {"BadConstraints"}, "a job is there nevertheless"
    with pytest.raises(UserError):
        submit(host, job_of(plan))


@pytest.mark.parametrize(
    ("partition", "nodes", "words"),
    [("batch", 5, "batch (4 nodes, up to"), ("interactive", 3, "interactive (4 nodes, at most 2 for a job, up to")],
)
def test_a_shape_of_too_many_nodes(host: LabHost, tmp_path: Path, partition: str, nodes: int, words: str):
    plan = slurm_plan(tmp_path, "", {"partition": partition}, nodes=nodes)
    put(host, plan)
    with pytest.raises(UserError, match="more nodes") as caught:
        submit(host, job_of(plan))
    assert words in str(caught.value)


def end_session(leader: int) -> None:
    """Kills every process of a session; what `timeout` starts has a group of its own.

    They are stopped before: as when a machine is restarted, none sees another one's end.
    """
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if os.getsid(int(entry.name)) == leader:
                    os.kill(int(entry.name), number)


def caller(lab: SlurmLab, plan: Plan, shims: Path | None) -> subprocess.Popen[str]:
    """Another process that submits the plan and prints the job's id."""
    host = LabHost(lab, str(shims or ""))
    job = job_of(plan)
    program = f"""
    from nemo_runspec.backends.slurm.cluster.submit import SlurmSubmission, submit
    from nemo_runspec.transport.base import Done
    import subprocess

    class Here:
        name = key = "here"
        def run(self, script, *, data=b"", timeout=60.0):
            done = subprocess.run(["bash", "-c", script], input=data, capture_output=True, timeout=timeout)
            return Done(done.returncode, done.stdout, done.stderr)

    job = SlurmSubmission({job.name!r}, {job.folder!r}, {job.script!r}, {tuple(job.command)!r})
    print(submit(Here(), job).id)
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=host.environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
