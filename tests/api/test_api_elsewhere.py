"""Jobs and sweeps of other machines from Python: what a platform does not do, or does not answer, is an error."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence

import pytest
from job_records import record, stored

from nemo_runspec.api.job import Job
from nemo_runspec.api.sweep import SubmittedSweep
from nemo_runspec.backends.base import Backend
from nemo_runspec.backends.capabilities import KeepsJobs, SubmitsArrays
from nemo_runspec.backends.provider import Handle, LogChunk, Results
from nemo_runspec.errors import UserError
from nemo_runspec.records import JobStore
from nemo_runspec.records.record import JobRecord
from nemo_runspec.records.status import JobStatus
from nemo_runspec.remote.log_mirror import Mirror
from nemo_runspec.sweeps.model import Member, Sweep
from nemo_runspec.sweeps.store import SweepStore
from nemo_runspec.transport.base import Unreachable

GROUP = "sweep-x-1121-abcdefgh"


@KeepsJobs.register
class Platform:
    """Ends what it is told to end, and keeps it until that is deleted."""

    def __init__(self) -> None:
        self.stopped: set[str] = set()
        self.deleted: list[str] = []
        self.refuses = self.away = False

    def endpoint(self, handle: Handle) -> str:
        return "there"

    def in_array(self, handle: Handle) -> bool:
        return False

    def status(self, handles: Sequence[Handle], *, places: bool = False) -> list[JobStatus]:
        self._answer()
        return [JobStatus("cancelled" if handle["id"] in self.stopped else "running") for handle in handles]

    def stop(self, handles: Sequence[Handle], by: str, *, hard: bool = False) -> None:
        self.stopped |= {str(handle["id"]) for handle in handles}

    def collect(self, handles: Sequence[Handle], seen: Sequence[JobStatus]) -> list[Results]:
        return [Results() for _ in handles]

    def read_log(
        self, handle: Handle, cursors: Mapping[str, int], limit: int, *, platform: bool = False
    ) -> list[LogChunk]:
        self._answer()
        start = cursors.get("log", 0)
        return [LogChunk("log", start, b"one\ntwo\n"[start:], False)]

    def delete_remote(self, handle: Handle) -> Sequence[str]:
        if self.refuses:
            raise UserError("no permission")
        self.deleted.append(str(handle["id"]))
        return [f"job {handle['id']}"]

    def delete_files(self, handle: Handle) -> None:
        self._answer()

    def read_metrics(self, handles: Sequence[Handle], sizes: Sequence[int], limit: int) -> Sequence[object]:
        self._answer()
        return []

    def _answer(self) -> None:
        if self.away:
            raise Unreachable("there does not answer")


@SubmitsArrays.register
class Cluster(Platform):
    """One whose metrics can be asked for."""


def at(monkeypatch: pytest.MonkeyPatch, found: Platform) -> Platform:
    monkeypatch.setattr(Backend, "load_provider", lambda self: found)
    return found


@pytest.fixture
def platform(project, monkeypatch) -> Platform:
    return at(monkeypatch, Platform())


def job_there(name: str = "job", *states: str, **values: object) -> JobRecord:
    steps = ("planned", "queued", "running", *states)
    return stored(JobStore(), record(name, steps, executor="lepton", handle={"id": f"{name}-1"}, **values))


def sweep_there() -> SubmittedSweep:
    made = [job_there(f"run-{number}", group=GROUP) for number in range(2)]
    members = tuple(Member(n, each.name, str(JobStore().folder(each.name)), {}) for n, each in enumerate(made))
    SweepStore().write(Sweep(GROUP, "mine/train", made[0].created, members=members, executor="lepton", unattended=True))
    return SubmittedSweep(GROUP)


def test_a_job_that_is_ended_is_deleted_on_its_platform(platform):
    job_there()
    assert Job("job").cancel().state == "cancelled"
    assert platform.deleted == ["job-1"]


def test_the_runs_of_a_sweep_are_too(platform):
    assert sweep_there().cancel().state == "cancelled"
    assert sorted(platform.deleted) == ["run-0-1", "run-1-1"]


def test_what_could_not_be_deleted_is_an_error(platform):
    platform.refuses = True
    job_there()
    told: list[str] = []
    with pytest.raises(UserError, match="job: what its platform keeps of it was not deleted: no permission"):
        Job("job").cancel(say=told.append)
    assert Job("job").status().state == "cancelled" and len(told) == 1
    with pytest.raises(UserError, match="no permission"):
        sweep_there().cancel()
    assert {run.status().state for run in SubmittedSweep(GROUP).runs} == {"cancelled"}


def test_a_job_that_cannot_be_ended_keeps_no_other_from_being_deleted(platform, monkeypatch):
    sweep = sweep_there()
    stored(JobStore(), dataclasses.replace(record("here", ("planned", "running")), group=GROUP))
    monkeypatch.setattr("nemo_runspec.runner.cancel._cancel_one", lambda *_: UserError("it is elsewhere"))
    with pytest.raises(UserError, match="it is elsewhere"):
        sweep.cancel()
    assert sorted(platform.deleted) == ["run-0-1", "run-1-1"]


def test_a_log_that_cannot_be_fetched_is_an_error(platform):
    job_there()
    assert list(Job("job").logs()) == ["one", "two"]
    platform.away = True
    with pytest.raises(UserError, match="there does not answer") as error:
        list(Job("job").logs())
    assert error.value.transient


@pytest.mark.parametrize("whole", [True, False])
def test_a_log_that_came_whole_at_the_end_is_there_without_its_platform(platform, whole):
    job_there("job", "succeeded", exit_code=0)
    mirror = Mirror(platform, {"id": "job-1"}, JobStore().folder("job"))
    mirror.fetch(last=whole)
    assert mirror.whole is whole
    platform.away = True
    if whole:
        assert list(Job("job").logs()) == ["one", "two"]
    else:
        with pytest.raises(UserError, match="there does not answer"):
            list(Job("job").logs())


def test_metrics_that_cannot_be_asked_for_are_an_error(project, monkeypatch):
    cluster = at(monkeypatch, Cluster())
    job_there()
    (JobStore().folder("job") / "metrics.jsonl").write_text('{"loss": 0.5}\n')
    assert Job("job").metrics() == {"loss": 0.5}
    cluster.away = True
    with pytest.raises(UserError, match="there does not answer"):
        Job("job").metrics()
    job_there("over", "succeeded", exit_code=0)
    assert Job("over").metrics() == {}, "of one that has ended there is nothing to be asked for"


def test_how_a_sweep_is_cannot_be_told_without_its_platform(platform):
    sweep = sweep_there()
    assert sweep.status().state == "running"
    platform.away = True
    with pytest.raises(UserError, match="there does not answer"):
        sweep.status()


def test_a_run_that_is_lost_ends_the_wait_also_while_its_platform_is_away(platform):
    sweep = sweep_there()
    for number in range(2):
        job_there(f"run-{number}", "lost", group=GROUP)
    platform.away = True
    told: list[str] = []
    assert sweep.wait(timeout=60, say=told.append) == 1
    assert told and all("there does not answer" in line for line in told)


def test_a_sweep_whose_jobs_are_removed_one_by_one_keeps_its_end(platform):
    sweep = sweep_there()
    platform.stopped = {"run-0-1", "run-1-1"}
    for run in sweep.runs:
        assert run.status().state == "cancelled"
        run.remove()
    assert (sweep.status().state, sweep.status().exit_code) == ("cancelled", 1)


def test_jobs_are_removed(platform):
    job_there()
    with pytest.raises(UserError, match="job 'job' is running; nothing was removed"):
        Job("job").remove()
    with pytest.raises(UserError, match="there is no 'jo' to be removed"):
        Job("jo").remove()
    Job("job").cancel()
    platform.away = True
    with pytest.raises(UserError, match="job 'job' was not removed: there does not answer"):
        Job("job").remove()
    told: list[str] = []
    Job("job").remove(force=True, say=told.append)
    assert told == ["job: there does not answer"] and not os.path.lexists(Job("job").folder)


def test_a_sweep_is_removed_with_its_jobs(platform):
    sweep = sweep_there()
    with pytest.raises(UserError, match="is not over"):
        sweep.remove()
    sweep.cancel()
    sweep.remove()
    assert JobStore().entries() == [] and SweepStore().names() == []
