"""A cancelled job's command gets TERM and time to save, whatever its batch script would do next."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from slurm_jobs import LabHost, see, slurm_plan, start, wait
from waiting import until

from nemo_runspec.backends.slurm.array import stop_tasks
from nemo_runspec.backends.slurm.cluster.job import ClusterJob, SlurmJobRef
from nemo_runspec.backends.slurm.cluster.status import query_jobs
from nemo_runspec.backends.slurm.cluster.stop import request_stop
from nemo_runspec.errors import UserError
from nemo_runspec.records.record import is_over
from nemo_runspec.transport.base import Host

pytestmark = needs_slurm

SAVES = """
import os, pathlib, signal, sys, time

def save(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep({seconds})
    while {waits} and not pathlib.Path({folder!r}, "go").exists():
        time.sleep(0.1)
    pathlib.Path({folder!r}, "saved-" + os.environ["NEMOTRON_NODE_RANK"]).touch()
    sys.exit({code})

signal.signal(signal.SIGTERM, save)
pathlib.Path({folder!r}, "ready-" + os.environ["NEMOTRON_NODE_RANK"]).touch()
while True:
    time.sleep(0.1)
"""


def cancel(host: Host, jobs: Sequence[SlurmJobRef], by: str, *, grace: float = 60) -> dict[str, ClusterJob]:
    """The two errands one after the other, as `remote.cancel` does them."""
    request_stop(host, jobs, by)
    last = time.monotonic() + grace
    seen = query_jobs(host, jobs)
    while time.monotonic() < last and not all(is_over(job.state) for job in seen.values()):
        time.sleep(0.5)
        seen = query_jobs(host, jobs)
    left = [job for job in jobs if not is_over(seen[job.id].state)]
    request_stop(host, left, by, hard=True)
    return seen | query_jobs(host, left)


@pytest.fixture
def host(slurm_lab_plain: SlurmLab) -> LabHost:
    return LabHost(slurm_lab_plain)


def begin(
    host: LabHost, folder: Path, *, seconds: float = 0, waits: bool = False, code: int = 0, retries: int = 0
) -> SlurmJobRef:
    """A job of two nodes whose command is ready to be stopped.

    Args:
        seconds: that it takes to save. `waits`: for a file `go`, too.
    """
    script = SAVES.format(folder=str(folder), seconds=seconds, waits=waits, code=code)
    job = start(host, slurm_plan(folder, script, {"retries": retries}, nodes=2))
    until(lambda: len(list(folder.glob("ready-*"))) == 2, "both commands")
    return job


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("saved-*"))


@pytest.mark.parametrize("code", [0, 3])
def test_it_saves_for_longer_than_slurm_would_wait(host: LabHost, tmp_path: Path, code: int):
    """The lab's KillWait is 2 s. A failing command is not tried again, though the profile has retries."""
    job = begin(host, tmp_path, seconds=5, code=code, retries=2)
    seen = cancel(host, [job], "a test", grace=120)[job.id]
    assert names(tmp_path) == ["saved-0", "saved-1"] or code
    assert "saved-0" in names(tmp_path) or "saved-1" in names(tmp_path)
    assert (seen.state, seen.reason, seen.restarts) == ("cancelled", "cancelled by a test", 0)
    assert seen.exit_code != 0
    assert see(host, job).state == "cancelled"


def test_one_that_heeds_nothing_is_ended_after_its_grace(host: LabHost, tmp_path: Path):
    job = begin(host, tmp_path, seconds=600)
    cancel(host, [job], "a test", grace=1)
    seen = wait(host, job)
    assert (seen.state, seen.slurm_state) == ("cancelled", "CANCELLED")
    assert names(tmp_path) == []


def test_a_waiting_job_never_starts(host: LabHost, slurm_lab_plain: SlurmLab, tmp_path: Path):
    slurm_lab_plain.wait_for(slurm_lab_plain.submit("sleep 600", "--nodes=4", "--exclusive"), "RUNNING")
    job = start(host, slurm_plan(tmp_path, f"open('{tmp_path}/ran', 'w')"))
    assert see(host, job).state == "queued"
    seen = cancel(host, [job], "a test")[job.id]
    assert (seen.state, seen.reason) == ("cancelled", "cancelled by a test")
    assert not (tmp_path / "ran").exists()


def test_one_that_is_over_is_left(host: LabHost, tmp_path: Path):
    job = start(host, slurm_plan(tmp_path, ""))
    before = wait(host, job)
    assert cancel(host, [job], "a test")[job.id] == before
    assert before.state == "succeeded"
    assert cancel(host, [SlurmJobRef("424242")], "a test", grace=0)["424242"].state == "lost"


@pytest.mark.parametrize("ask", [request_stop, partial(request_stop, hard=True)])
def test_one_that_has_ended_since_slurm_was_asked_is_left(
    host: LabHost, slurm_lab_plain: SlurmLab, tmp_path: Path, ask: Callable[..., None]
):
    """The others' answers of the same round trip are not lost by it."""
    job = start(host, slurm_plan(tmp_path / "job", ""))
    assert wait(host, job).state == "succeeded"
    (tmp_path / "squeue").write_text("#!/bin/sh\necho RUNNING\n")  # what it said a moment ago
    (tmp_path / "squeue").chmod(0o755)
    ask(LabHost(slurm_lab_plain, str(tmp_path)), [job], "a test")
    assert see(host, job).state == "succeeded"


def test_one_that_succeeded_before_the_signal_came_has_succeeded(host: LabHost, tmp_path: Path):
    plan = slurm_plan(tmp_path, "")
    job = start(host, plan)
    wait(host, job)
    (Path(plan.job_dir) / "status" / "cancelled").write_text("a test, too late\n")
    assert see(host, job).state == "succeeded"


def test_asking_twice_is_asking_once_more(host: LabHost, tmp_path: Path):
    job = begin(host, tmp_path, waits=True)
    request_stop(host, [job], "the first")
    request_stop(host, [job], "the second")
    (tmp_path / "go").touch()
    seen = wait(host, job)
    assert (seen.state, seen.reason) == ("cancelled", "cancelled by the first")
    assert names(tmp_path) == ["saved-0", "saved-1"]


def test_several_at_once(host: LabHost, tmp_path: Path):
    jobs = []
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        jobs.append(begin(host, tmp_path / name, seconds=1))
    host.calls = 0
    request_stop(host, jobs, "a test")
    assert host.calls == 1
    assert {wait(host, job).state for job in jobs} == {"cancelled"}


def test_tasks_of_an_array(host: LabHost, slurm_lab_plain: SlurmLab, tmp_path: Path):
    """One task by itself, those that wait too; then the whole array."""
    array = slurm_lab_plain.submit("exec sleep 600", "--array=1-4%2")
    for name in "1234":
        (tmp_path / name).mkdir()
    asked = [SlurmJobRef(f"{array}_{n}", str(tmp_path / n)) for n in "1234"]
    until(
        lambda: [job.state for job in query_jobs(host, asked).values()] == ["running"] * 2 + ["queued"] * 2,
        "two of four",
    )
    request_stop(host, [asked[0], asked[3]], "a test")
    until(lambda: query_jobs(host, asked)[asked[0].id].state == "cancelled", "the first one's end")
    until(lambda: query_jobs(host, asked)[asked[2].id].state == "running", "another one in its place")
    states = [job.state for job in query_jobs(host, asked).values()]
    assert states == ["cancelled", "running", "running", "cancelled"]
    request_stop(host, [SlurmJobRef(array)], "a test", hard=True)
    until(lambda: {job.state for job in query_jobs(host, asked).values()} == {"cancelled"}, "the end of all")
    assert query_jobs(host, [SlurmJobRef(array)])[array].state == "cancelled"


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("state", ["RUNNING", "PENDING"])
def test_an_id_that_another_job_has_now(slurm_lab_plain: SlurmLab, host: LabHost, hard: bool, state: str):
    """As after a cluster has lost its state: ids begin anew. Another job is never stopped."""
    other = slurm_lab_plain.submit("sleep 600", *(["--hold"] if state == "PENDING" else []), "--job-name=other")
    slurm_lab_plain.wait_for(other, state)
    array = slurm_lab_plain.submit("sleep 600", "--array=0-1", "--job-name=another")
    slurm_lab_plain.wait_for(f"{array}_1", "RUNNING")
    with pytest.raises(UserError, match=r"(?s)'other', which is left alone.*squeue --me --states=all --name=train-1"):
        request_stop(host, [SlurmJobRef(other, name="train-1")], "the test", hard=hard)
    task = {"id": f"{array}_0", "array": "/nowhere", "task": 0, "name": "train-2", "slurm": ""}
    with pytest.raises(UserError, match="that of another job now, 'another', which is left alone"):
        stop_tasks(host, [task], "the test", hard=hard)
    assert [slurm_lab_plain.state(id) for id in (other, f"{array}_0")] == [state, "RUNNING"]
    stop_tasks(host, [{**task, "name": "another"}], "the test", hard=True)
    request_stop(host, [SlurmJobRef(other, name="other")], "the test", hard=True)
    slurm_lab_plain.wait_for(other, "CANCELLED")
    slurm_lab_plain.wait_for(f"{array}_0", "CANCELLED")
