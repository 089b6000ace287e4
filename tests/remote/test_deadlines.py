"""Deadlines of jobs that wait: when they pass, what is said, and how a job that was stopped for that has ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from job_records import record, stored

from nemo_runspec.backends.capabilities import Diagnoses
from nemo_runspec.backends.provider import Handle, Results
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.errors import UserError
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.facts import JobFacts
from nemo_runspec.records.lifecycle import Cancellation, Deadlines
from nemo_runspec.records.status import JobStatus
from nemo_runspec.remote.deadlines import TIMED_OUT, enforce, timed, told_by
from nemo_runspec.transport.base import Unreachable

LIMITS = {"queue": 60, "pull": 120, "start": 30, "action": "warn"}
WAITS = JobStatus("queued", facts=JobFacts(id="j-1", phase="queue", waiting="no capacity"))


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore(tmp_path / "jobs")


def job(
    store: JobStore, *, age: float = 0, action: str = "warn", name: str = "job", id: str = "j-1", **facts: object
) -> JobRecord:
    """A job that has been queued for that many seconds."""
    handle = {"name": name, "id": id, "deadlines": {**LIMITS, "action": action}}
    states = ("planned", "submitting", "queued")
    return stored(store, record(name, states, age=age + 2, executor="cloud", handle=handle, facts=facts))


@pytest.mark.parametrize(("age", "overdue"), [(30, ""), (90, "for longer than queue_timeout (1 min)")])
def test_a_job_that_nobody_asked_about_was_queued_all_the_time(store, age, overdue):
    waiting = job(store)
    began = datetime.fromisoformat(waiting.states[-1].time).timestamp()
    seen = timed(waiting, WAITS, began + age)
    assert seen.facts.overdue == overdue
    assert seen.facts.phase_since == pytest.approx(began)


def test_each_phase_has_its_own_time(store):
    began = 1000.0
    pulls = replace(WAITS, state="starting", facts=JobFacts(phase="pull"))
    first = timed(job(store, age=900, phase="queue", phase_since=100.0), pulls, began)
    assert (first.facts.phase_since, first.facts.overdue) == (began, ""), "what it was before is over"
    told = job(store, phase="pull", phase_since=began)
    assert not timed(told, pulls, began + 119).facts.overdue
    assert timed(told, pulls, began + 121).facts.overdue == "for longer than pull_timeout (2 min)"
    runs = JobStatus("running", facts=JobFacts(phase=""))
    assert timed(told, runs, began + 900) == runs


def test_a_pull_that_has_failed_has_less_time(store):
    """Nodes are not held for an hour for an image that is not there; one that is only large has all of its time."""
    limits = {**LIMITS, "pull": 3600, "action": ""}
    began = job(store, phase="pull", phase_since=1000.0)
    began = replace(began, deadlines=Deadlines(**limits))
    fails = replace(WAITS, state="starting", facts=JobFacts(id="j-1", phase="pull", failing=True))
    first = timed(began, fails, 2000.0)
    assert (first.facts.failing_since, first.facts.overdue) == (2000.0, ""), "it only fails since then"
    later = replace(began, facts=first.facts)
    assert not timed(later, fails, 2299.0).facts.overdue
    assert timed(later, fails, 2301.0).facts.overdue == "with a failed pull for longer than 5 min (pull_timeout)"
    pulls = replace(fails, facts=replace(fails.facts, failing=False))
    goes_on = timed(later, pulls, 2301.0).facts
    assert (goes_on.overdue, goes_on.failing_since) == ("", None), "it goes on after all"
    long_ago = store.note(later, facts=replace(first.facts, phase_since=time.time(), failing_since=2000.0))
    long_ago = store.note(long_ago, deadlines=later.deadlines)
    _, seen = enforced(store, Platform(), long_ago, fails)
    assert (seen.state, seen.exit_code) == ("failed", TIMED_OUT)
    assert seen.reason == "pull_timeout: it could not pull the image for longer than 5 min"


@pytest.mark.parametrize("facts", [{}, {"phase": ""}])
def test_a_job_that_is_back_in_the_queue_waits_since_now(store, facts):
    """It ran for hours and had no phase then: when it was submitted says nothing of how long it waits."""
    handle = {"name": "job", "id": "j-1", "deadlines": LIMITS}
    states = ("planned", "submitting", "queued", "running")
    preempted = stored(store, record("job", states, age=9000, executor="cloud", handle=handle, facts=facts))
    seen = timed(preempted, WAITS, 5e9)
    assert (seen.facts.phase_since, seen.facts.overdue) == (5e9, "")


def test_what_nobody_asked_is_as_it_was(store):
    """Of many jobs a platform is asked less: a phase that is not told does not begin anew."""
    told = job(store, age=900, phase="queue", phase_since=1000.0)
    untold = replace(WAITS, facts=JobFacts(id="j-1"))
    assert timed(told, untold, 9000.0).facts == JobFacts(id="j-1", phase="queue", phase_since=1000.0)
    assert timed(told, replace(untold, state="starting"), 9000.0).facts == JobFacts(id="j-1")


def test_a_job_without_deadlines_is_as_it_was(store):
    plain = stored(store, record("plain", ("planned", "queued"), age=9000, handle={"id": "7"}))
    assert timed(plain, WAITS, time.time()) == WAITS


@Diagnoses.register
class Platform:
    """Stops what it is told to stop, after some looks."""

    def __init__(self, looks: int = 2, diagnosis: Diagnosis | None = None, ends: str = "cancelled") -> None:
        self.looks, self.diagnosis, self.ends = looks, diagnosis, ends
        self.stopped: list[str] = []
        self.away = False
        self.refused = ""

    def stop(self, handles: Sequence[Handle], by: str, *, hard: bool = False) -> None:
        if self.away:
            raise Unreachable("no answer")
        if self.refused in [handle["id"] for handle in handles]:
            raise UserError("no permission")
        self.stopped += [f"{handle['id']} {by}" for handle in handles]

    def status(self, handles: Sequence[Handle], *, places: bool = False) -> list[JobStatus]:
        self.looks -= 1
        return [JobStatus("queued" if self.looks > 0 else self.ends) for _ in handles]

    def diagnose(self, handle: Handle, seen: JobStatus) -> Diagnosis | None:
        assert not self.stopped, "afterwards there is nothing to be seen"
        return self.diagnosis


def enforced(
    store: JobStore, platform: Platform, of: JobRecord, seen: JobStatus = WAITS
) -> tuple[JobRecord, JobStatus]:
    told = timed(of, seen, time.time())
    return enforce(store, platform, [(of, told)], sleep=lambda seconds: None)[0]  # type: ignore[arg-type]


def test_a_warning_stops_nothing(store):
    platform = Platform()
    _, seen = enforced(store, platform, job(store, age=90))
    assert (seen.state, platform.stopped) == ("queued", [])


@pytest.mark.parametrize("found", [None, Diagnosis("capacity", "no node has 8 GPUs", "events", "ask for 4")])
def test_stopped_and_diagnosed(store, found):
    platform = Platform(diagnosis=found)
    now, seen = enforced(store, platform, job(store, age=90, action="stop"))
    rest = told_by(now, Results())
    assert (platform.stopped, seen.state, seen.exit_code) == (["j-1 queue_timeout"], "failed", TIMED_OUT)
    assert seen.reason == "queue_timeout: it waited for nodes for longer than 1 min"
    assert rest.diagnosis is not None
    assert (rest.diagnosis.kind, rest.diagnosis.what) == ("capacity", found.what if found else seen.reason)


def test_a_platform_that_cannot_tell_why_stops_it_all_the_same(store):
    platform = Platform()
    platform.diagnose = _cannot_tell  # type: ignore[method-assign]
    now, seen = enforced(store, platform, job(store, age=90, action="stop"))
    assert (seen.exit_code, now.deadlines.timed_out.diagnosis["kind"]) == (TIMED_OUT, "capacity")
    assert now.deadlines.timed_out.diagnosis["evidence"] == "no capacity"


def _cannot_tell(handle: Handle, seen: JobStatus) -> Diagnosis | None:
    raise UserError("no permission to read events")


def test_one_that_cannot_be_stopped_keeps_nobody_from_the_others(store):
    """It may end by itself, and has not failed for its time then."""
    platform = Platform()
    platform.refused = "j-1"
    late = [job(store, name=name, id=id, age=90, action="stop") for name, id in (("one", "j-1"), ("two", "j-2"))]
    (_, first), (_, second) = enforce(
        store, platform, [(of, timed(of, WAITS, time.time())) for of in late], sleep=lambda seconds: None
    )  # type: ignore[arg-type]
    assert (first.state, second.state, second.exit_code) == ("queued", "failed", TIMED_OUT)
    assert "cannot be stopped: no permission" in first.facts.overdue
    assert [(store.by_name(name).deadlines.timed_out is not None) for name in ("one", "two")] == [False, True]


def test_a_job_that_finishes_while_it_is_stopped_has_succeeded(store):
    platform = Platform(ends="succeeded")
    _, seen = enforced(store, platform, job(store, age=90, action="stop"))
    assert (len(platform.stopped), seen.state) == (1, "succeeded")


def test_a_job_whose_platform_forgets_it_at_once_has_failed_too(store):
    _, seen = enforced(store, Platform(ends="lost"), job(store, age=90, action="stop"))
    assert (seen.state, seen.exit_code) == ("failed", TIMED_OUT)


def test_whoever_asks_next_goes_on_where_the_first_one_was_cut_off(store):
    platform = Platform()
    platform.away = True
    _, seen = enforced(store, platform, job(store, age=90, action="stop"))
    assert (seen.state, seen.facts.overdue) == (
        "queued", "for longer than queue_timeout (1 min), and cannot be stopped: no answer"
    )  # fmt: skip
    platform.away = False
    left = store.by_name("job")
    platform.diagnose = lambda handle, seen: pytest.fail("it was diagnosed before")  # type: ignore[method-assign]
    _, seen = enforced(store, platform, left, replace(WAITS, facts=JobFacts(phase="")))
    assert (seen.state, seen.reason) == ("failed", left.deadlines.timed_out.cause)


def test_a_job_that_somebody_stops_is_left_to_them(store):
    stopping = job(store, age=90, action="stop")
    platform = Platform()
    enforced(store, platform, replace(stopping, cancellation=Cancellation("me")))
    assert platform.stopped == []
