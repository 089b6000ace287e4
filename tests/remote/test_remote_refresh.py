"""Records of jobs of other machines: one question per machine, and never more written down than a platform has said."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from job_records import gone, record, stored

from nemo_runspec.backends.provider import Handle, Results
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.facts import JobFacts
from nemo_runspec.records.last_poll import known_since
from nemo_runspec.records.lifecycle import Cancellation
from nemo_runspec.records.process import this_process
from nemo_runspec.records.status import JobStatus
from nemo_runspec.remote import refresh as refreshing
from nemo_runspec.remote import unconfirmed
from nemo_runspec.remote.refresh import refresh
from nemo_runspec.transport.base import Unreachable

GONE = JobStatus("failed", "it was never submitted: nemotron ended before it did", exit_code=1, gone=True)


class Platform:
    """What a platform would say, by job; how often it was asked, and what for."""

    def __init__(self) -> None:
        self.says: dict[str, JobStatus] = {}
        self.asked: list[list[str]] = []
        self.removed: list[str] = []
        self.away: set[str] = set()
        self.later: dict[str, JobStatus] = {}
        self.meanwhile: Callable[[], object] = dict
        self.rests: Results | None = Results(
            b'{"loss": 0.5}\n', {"model": "/there"}, Diagnosis("user code", "it raised")
        )

    def endpoint(self, handle: Handle) -> str:
        return str(handle["host"])

    def status(self, handles: Sequence[Handle], *, places: bool = False) -> list[JobStatus]:
        self._answer(handles)
        self.asked.append([str(handle["name"]) for handle in handles])
        self.meanwhile()
        self.says |= self.later if len(self.asked) > 1 else {}
        return [self.says.get(str(handle["name"]), JobStatus("running")) for handle in handles]

    def collect(self, handles: Sequence[Handle], seen: Sequence[JobStatus]) -> list[Results]:
        if self.rests is None:
            raise Unreachable("no answer")
        return [self.rests for _ in handles]

    def delete_files(self, handle: Handle) -> None:
        self._answer([handle])
        self.removed.append(str(handle["name"]))

    def _answer(self, handles: Sequence[Handle]) -> None:
        if self.away & {str(handle["host"]) for handle in handles}:
            raise Unreachable(f"no connection to {handles[0]['host']}")


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> Platform:
    found = Platform()
    backend = SimpleNamespace(load_provider=lambda: found)
    monkeypatch.setattr(refreshing, "get_backend", lambda name: backend)
    return found


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore(tmp_path / "jobs")


def job(store: JobStore, name: str, *states: str, host: str = "a", id: str = "1", **values: Any) -> JobRecord:
    handle = {"host": host, "name": name, "job_dir": f"/run/jobs/{name}", **({"id": id} if id else {})}
    handle |= values.pop("handle", {})
    made = record(name, ("planned", "submitting", *states), executor="slurm", handle=handle, **values)
    return stored(store, made)


def test_one_question_per_machine(store, platform):
    jobs = [job(store, f"job-{n}", "queued", host="ab"[n % 2]) for n in range(100)]
    jobs.append(job(store, "over", "queued", "succeeded"))
    jobs.append(stored(store, record("here", ("planned", "running"))))
    found = refresh(store, jobs)
    assert [len(names) for names in platform.asked] == [50, 50]
    assert [now.name for now, _ in found] == [each.name for each in jobs], "in their order"
    assert {now.state for now, _ in found[:100]} == {"running"} == {store.by_name("job-7").state}
    assert [seen for _, seen in found[100:]] == [None, None]


def test_a_machine_that_does_not_answer(store, platform):
    """The others are asked all the same, where the caller takes the trouble as a word."""
    jobs = [job(store, "job-a", "queued"), job(store, "job-b", "queued", host="b")]
    platform.away = {"a"}
    with pytest.raises(Unreachable):
        refresh(store, jobs)
    troubles: list[tuple[str, list[str]]] = []
    found = refresh(store, jobs, trouble=lambda text, some: troubles.append((text, [each.name for each in some])))
    assert [now.state for now, _ in found] == ["queued", "running"]
    assert troubles == [("no connection to a", ["job-a"])]
    assert known_since(found[0][0], store.folder("job-a")) is None
    assert known_since(found[1][0], store.folder("job-b")) is not None


def test_never_submitted(store, platform):
    """What was sent is removed before that is written down: a look that could not remove it leaves it for the next."""
    lost = job(store, "lost", id="", launcher=gone())
    platform.says["lost"] = GONE
    platform.delete_files, remove = _away, platform.delete_files
    with pytest.raises(Unreachable):
        refresh(store, [lost])
    assert not store.by_name("lost").ended
    platform.delete_files = remove
    ((now, _),) = refresh(store, [lost])
    assert (now.state, now.exit_code, platform.removed) == ("failed", 1, ["lost"])
    assert "never submitted" in now.cause


def _away(handle: Handle) -> None:
    raise Unreachable("no answer")


@pytest.mark.parametrize(
    ("values", "asked"),
    [
        ({"launcher": this_process()}, False),
        ({"launcher": dataclasses.replace(gone(), machine="elsewhere"), "host": "another"}, True),
        ({"handle": {"staged": True}}, True),
    ],
    ids=["on its way", "on its way from elsewhere", "staged"],
)
def test_not_there_yet(store, platform, values, asked):
    """A job that somebody submits just now, or will by hand, is not one that never was."""
    waiting = job(store, "waiting", id="", **values)
    platform.says["waiting"] = GONE
    ((now, _),) = refresh(store, [waiting])
    assert (now.ended, platform.removed, bool(platform.asked)) == (False, [], asked)


def test_adopted(store, platform):
    """A job that is found by its name has an id from then on."""
    found = job(store, "found", id="", launcher=gone())
    platform.says["found"] = JobStatus("running", facts=JobFacts(id="77", nodes="n1"))
    ((now, _),) = refresh(store, [found])
    assert (now.state, now.handle["id"], now.facts.nodes) == ("running", "77", "n1")
    assert store.by_name("found").submitted


def test_an_empty_id_is_none(store, platform):
    found = job(store, "found", id="", handle={"id": ""}, launcher=gone())
    platform.says["found"] = JobStatus("queued", facts=JobFacts(id="77"))
    ((now, _),) = refresh(store, [found])
    assert now.handle["id"] == "77"


@pytest.mark.parametrize("comes", [True, False])
def test_a_request_that_was_cut_off_may_still_arrive(store, platform, monkeypatch, comes):
    monkeypatch.setattr(unconfirmed, "PAUSES", (0.0, 0.0))
    handle = {"attempt": 0, "sent": time.time()}
    cut_off = job(store, "late", id="", launcher=gone(), handle=handle)
    platform.says["late"] = GONE
    platform.later = {"late": JobStatus("queued", facts=JobFacts(id="77"))} if comes else {}
    ((now, _),) = refresh(store, [cut_off])
    assert (now.state, now.handle.get("id"), platform.removed) == (
        ("queued", "77", []) if comes else ("unknown", None, [])
    )


@pytest.mark.parametrize("handle", [{}, {"attempt": 0}], ids=["slurm", "cloud"])
@pytest.mark.parametrize(
    "seen", [JobStatus("running"), JobStatus("queued", facts=JobFacts(nodes="n1")), JobStatus("failed", exit_code=1)]
)
def test_what_others_wrote_while_the_platform_was_asked_stays(store, platform, handle, seen):
    asked = job(store, "job", "queued", handle=handle)
    platform.meanwhile = lambda: store.note(asked, cancellation=Cancellation("me"))
    platform.says["job"] = seen
    refresh(store, [asked])
    now = store.by_name("job")
    assert (now.state, now.stopped_by, now.handle) == (seen.state, "me", asked.handle)


def test_of_a_handle_what_changes_is_written_alone(store):
    old = job(store, "job", "queued", handle={"a": 1, "timed_out": {"cause": "late"}})
    store.note(old, handle={"a": 2, "timed_out": None})
    store.saw(old, "starting", handle={"b": 3})
    store.transition(old, "running", handle={"c": 4})
    now = store.finish(old, "succeeded", handle={"d": 5})
    assert {key: now.handle.get(key) for key in ("a", "b", "c", "d")} == {"a": 2, "b": 3, "c": 4, "d": 5}
    assert (now.handle["id"], "timed_out" in now.handle) == ("1", False)


def test_how_it_ended(store, platform):
    platform.says["job"] = JobStatus(
        "failed", "exit code 3", exit_code=3, started=100.0, ended=160.0, facts=JobFacts(nodes="n2")
    )
    refresh(store, [job(store, "job", "queued", "running")])
    now = store.by_name("job")
    assert (now.state, now.exit_code, now.elapsed, now.cause) == ("failed", 3, 60.0, "exit code 3")
    assert (now.metrics, now.outputs, now.diagnosis["what"]) == ({"loss": 0.5}, {"model": "/there"}, "it raised")
    refresh(store, [now])
    assert len(platform.asked) == 1, "of a job that is over nobody is asked"


def test_what_is_left_is_out_of_reach(store, platform):
    """Its end is not written down before its secrets are removed: the next look does both."""
    rests, platform.rests = platform.rests, None
    platform.says["job"] = JobStatus("succeeded", exit_code=0)
    said: list[str] = []
    ((now, _),) = refresh(store, [job(store, "job", "queued")], trouble=lambda text, _: said.append(text))
    assert (now.state, said) == ("queued", ["no answer"])
    platform.rests = rests
    ((now, _),) = refresh(store, [now])
    assert (now.state, now.metrics) == ("succeeded", {"loss": 0.5})


@pytest.mark.parametrize("state", ["queued", "starting", "running", "unknown", "lost"])
def test_asked_by_two_at_once(store, platform, state):
    """The second has an old record, and comes after the first: what both saw is written once, with the last reason."""
    old = job(store, "job", "queued" if state != "queued" else "running")
    platform.says["job"] = JobStatus(state, "first")
    refresh(store, [old])
    platform.says["job"] = JobStatus(state, "second")
    ((now, _),) = refresh(store, [old])
    assert [step.state for step in now.states].count(state) == 1
    assert (now.state, now.reason) == (state, "second")
    for before, after in ((state, "starting"), ("starting", "queued"), ("queued", "running")):
        platform.says["job"] = JobStatus(after)
        ((now, _),) = refresh(store, [now])
        assert now.state == after, f"{before} → {after}"


def test_a_late_answer_does_not_wake_the_dead(store, platform):
    """A record that ended while the platform was asked stays as it ended."""
    old = job(store, "job", "queued")
    store.finish(old, "cancelled", exit_code=143)
    for seen in (JobStatus("running"), JobStatus("failed", exit_code=1), JobStatus("lost"), GONE):
        platform.says["job"] = seen
        ((now, _),) = refresh(store, [old])
        assert (now.state, now.exit_code) == ("cancelled", 143)


def test_what_was_known_of_a_job_that_cannot_be_seen_is_kept(store, platform):
    known = {"id": "1", "nodes": "n1", "phase": "queue", "phase_since": 7.0, "asked": "2026-11-22T08:00:00.000+00:00"}
    away = job(store, "job", "running", facts=known)
    platform.says["job"] = JobStatus("unknown", "gone", facts=JobFacts(id="1"), absent=True)
    ((now, _),) = refresh(store, [away])
    assert (now.state, now.facts.nodes, now.facts.phase_since) == ("unknown", "n1", 7.0)
    assert now.facts.absent.looks == 1
    platform.says["job"] = JobStatus("unknown", "an odd answer")
    ((now, _),) = refresh(store, [now])
    assert now.facts.absent.looks == 1, "what says nothing neither adds to it nor undoes it"
    platform.says["job"] = JobStatus("running", facts=JobFacts(id="1"))
    ((now, _),) = refresh(store, [now])
    assert now.facts.absent is None
    assert now.running_since == away.running_since
