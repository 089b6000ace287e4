"""Jobs that are submitted again: which, by whom, without which nodes, and what is kept of the attempts before."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from job_records import record, stored

from nemo_runspec.backends.capabilities import ListsReplicas, Resubmits
from nemo_runspec.backends.provider import Handle, LogChunk, Replica, Results
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.errors import UserError
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.facts import JobFacts
from nemo_runspec.records.lifecycle import Cancellation
from nemo_runspec.records.lock import locked
from nemo_runspec.records.status import JobStatus
from nemo_runspec.remote import refresh as refreshing
from nemo_runspec.remote import resubmit, unconfirmed
from nemo_runspec.remote.refresh import refresh
from nemo_runspec.transport.base import Unreachable

FAILED = JobStatus("failed", "exit code 137", exit_code=137, facts=JobFacts(id="j-0", nodes="node-1,node-10"))
EVICTED = Diagnosis("eviction", "it was evicted")


@ListsReplicas.register
@Resubmits.register
class Platform:
    """Every attempt has an id of its own; all fail as `diagnosis` says."""

    def __init__(self) -> None:
        self.diagnosis: Diagnosis | None = EVICTED
        self.replicas_are: list[Replica] = []
        self.avoided: list[list[str]] = []
        self.rests = 0
        self.trouble: UserError | None = None
        self.stopped: list[str] = []
        self.there: dict[int, str] = {}
        self.during_again = self.during_tail = _nothing
        self.during_look = _nothing

    def endpoint(self, handle: Handle) -> str:
        return "there"

    def status(self, handles: Sequence[Handle], *, places: bool = False) -> list[JobStatus]:
        self.during_look()
        return [FAILED if handle.get("id") else self.found(handle) for handle in handles]

    def found(self, handle: Handle) -> JobStatus:
        id = self.there.get(int(handle["attempt"]))
        return JobStatus("running", facts=JobFacts(id=id)) if id else JobStatus("failed", gone=True)

    def diagnose(self, handle: Handle, seen: JobStatus) -> Diagnosis | None:
        return self.diagnosis

    def replicas(self, handle: Handle) -> list[Replica]:
        return self.replicas_are

    def next_attempt(self, handle: Handle, number: int) -> Handle:
        return {**{key: value for key, value in handle.items() if key != "id"}, "attempt": number}

    def resubmit(self, handle: Handle, avoid: Sequence[str], folder: Path, *, resumed: bool = False) -> Handle:
        if self.trouble:
            raise self.trouble
        if handle["attempt"] not in self.there:
            self.avoided.append(list(avoid))
            self.there[handle["attempt"]] = f"j-{len(self.avoided)}"
            self.during_again()
        return {**handle, "id": self.there[handle["attempt"]]}

    def read_log(
        self, handle: Handle, offsets: Mapping[str, int], limit: int, *, platform: bool = False
    ) -> list[LogChunk]:
        self.during_tail()
        path = f"{handle['id']}-0"
        return [] if path in offsets else [LogChunk(path, 0, f"the log of {handle['id']}\n".encode(), next=1)]

    def stop(self, handles: Sequence[Handle], by: str, *, hard: bool = False) -> None:
        self.stopped += [str(handle["id"]) for handle in handles]

    def collect(self, handles: Sequence[Handle], seen: Sequence[JobStatus]) -> list[Results]:
        self.rests += 1
        return [Results(diagnosis=self.diagnosis) for _ in handles]


def _nothing() -> None:
    return None


def _killed() -> None:
    raise KeyboardInterrupt


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> Platform:
    found = Platform()
    monkeypatch.setattr(unconfirmed, "PAUSES", (0.0, 0.0))
    monkeypatch.setattr(refreshing, "get_backend", lambda name: SimpleNamespace(load_provider=lambda: found))
    return found


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore(tmp_path / "jobs")


def job(store: JobStore, attempts: int = 3, **handle: Any) -> JobRecord:
    known = {"name": "job", "id": "j-0", "attempt": 0, "attempts": attempts, **handle}
    return stored(store, record("job", ("planned", "submitting", "queued", "running"), executor="cloud", handle=known))


def test_until_the_attempts_are_over(store, platform):
    now = job(store)
    for attempt in (1, 2):
        ((now, seen),) = refresh(store, [now])
        assert (now.state, now.handle["id"], now.attempt.number) == ("queued", f"j-{attempt}", attempt)
        assert now.reason == f"attempt {attempt + 1} of 3 after eviction"
        assert seen is not None
        assert seen.facts.attempt == attempt
    assert platform.rests == 0, "its secrets are still needed"
    ((now, _),) = refresh(store, [now])
    assert (now.state, now.exit_code, now.diagnosis["kind"], platform.rests) == ("failed", 137, "eviction", 1)
    assert [each.id for each in now.attempt.tried] == ["j-0", "j-1"]
    log = (store.folder("job") / "logs" / "job.log").read_text()
    assert log == "the log of j-0\nthe log of j-1\n", "each attempt's, before it is forgotten"


@pytest.mark.parametrize(
    "kind", ["user code", "out of memory", "image", "capacity", "credentials", "storage", "", None]
)
def test_what_it_did_itself_it_would_do_again(store, platform, kind):
    platform.diagnosis = None if kind is None else Diagnosis(kind, "it failed")
    ((now, _),) = refresh(store, [job(store)])
    assert (now.state, platform.avoided) == ("failed", [])


@pytest.mark.parametrize("handle", [{"attempts": 1}, {"attempt": 2}, {"stopped_by": "me"}])
def test_never_again(store, platform, handle):
    ((now, _),) = refresh(store, [job(store, **handle)])
    assert (now.state, platform.avoided) == ("failed", [])


def test_keys_in_a_backends_handle_mean_nothing_here(store, platform):
    """It may call its own what it likes: only what stands beside the handle is acted on."""
    own = {"name": "job", "id": "j-0", "attempt": 0, "attempts": 3, "again": {}, "stopped_by": "x", "deadlines": {}}
    made = stored(store, replace(job(store), handle=own, attempt=None, deadlines=None))
    ((now, _),) = refresh(store, [made])
    assert (now.state, now.stopped_by, platform.avoided) == ("failed", "", [])
    assert dict(store.by_name("job").handle) == own


def test_a_stale_record_is_no_reason(store, platform):
    """Two processes ask at the same time: the second one finds it done, even where it has seen the failure before."""
    old = job(store)
    ((now, _),) = refresh(store, [old])
    platform.during_look = lambda: store.note(now, handle={"id": "j-9"})
    ((second, seen),) = refresh(store, [old])
    assert (second.handle["id"], seen, len(platform.avoided)) == ("j-9", None, 1)


def test_another_process_does_it_just_now(store, platform):
    waiting = job(store)
    folder = store.folder("job") / "attempts"
    folder.mkdir()
    with locked(folder):
        ((now, _),) = refresh(store, [waiting])
    assert (now.state, platform.avoided) == ("running", [])


def test_an_end_that_came_first(store, platform):
    """What was submitted in vain does not run on unseen."""
    waiting = job(store)
    platform.during_again = lambda: store.finish(waiting, "failed", exit_code=1)
    ((now, _),) = refresh(store, [waiting])
    assert (now.state, now.handle["id"], platform.stopped) == ("failed", "j-0", ["j-1"])


def test_stopped_while_its_log_was_fetched(store, platform):
    waiting = job(store)
    platform.during_tail = lambda: store.note(waiting, cancellation=Cancellation("me"))
    ((now, _),) = refresh(store, [waiting])
    assert (now.state, platform.avoided, now.stopped_by) == ("failed", [], "me")
    assert now.attempt.pending is None


def test_stopped_while_it_was_sent(store, platform):
    """Who stopped it was told that the old attempt is over: the new one is ended by whoever has sent it."""
    waiting = job(store)
    platform.during_again = lambda: store.note(waiting, cancellation=Cancellation("me"))
    ((now, _),) = refresh(store, [waiting])
    assert (now.handle["id"], now.stopped_by, platform.stopped) == ("j-1", "me", ["j-1"])


def test_killed_once_it_was_sent(store, platform):
    """The next one that asks finds it, with nothing left of what spoke for another attempt."""
    platform.during_again = _killed
    with pytest.raises(KeyboardInterrupt):
        refresh(store, [job(store)])
    platform.diagnosis = None
    ((now, seen),) = refresh(store, [store.by_name("job")])
    assert (now.state, now.handle["id"], now.attempt.number, seen) == ("queued", "j-1", 1, None)
    assert (len(platform.avoided), now.attempt.pending is not None, now.reason) == (
        1,
        False,
        "attempt 2 of 3 after eviction",
    )
    assert [each.kind for each in now.attempt.tried] == ["eviction"]


@pytest.mark.parametrize("hidden", [0, 2, 3])
def test_killed_and_stopped(store, platform, monkeypatch, hidden):
    """What was sent is ended, though two answers lack it; what three lack, over a minute, was not sent, and is not."""
    clock = [time.time()]
    monkeypatch.setattr(resubmit, "time", SimpleNamespace(time=lambda: clock[0]))
    platform.during_again = _killed
    with pytest.raises(KeyboardInterrupt):
        refresh(store, [job(store)])
    there, platform.there = platform.there, {}
    left = store.note(store.by_name("job"), cancellation=Cancellation("me"))
    clock[0] += 100
    for _ in range(min(hidden, 2)):
        ((now, _),) = refresh(store, [left])
        assert (now.state, now.attempt.pending is not None, platform.stopped) == ("unknown", True, [])
        assert "attempt 2 may have been submitted" in now.reason
        clock[0] += 31
    platform.there = {} if hidden == 3 else there
    ((now, _),) = refresh(store, [left])
    assert (now.handle["id"], now.state) == (("j-0", "failed") if hidden == 3 else ("j-1", "queued"))
    assert platform.stopped == ([] if hidden == 3 else ["j-1"])
    assert (len(platform.avoided), now.attempt.pending is not None) == (1, False)


def test_out_of_reach(store, platform):
    """It is not written down as failed: the next question submits it again."""
    platform.trouble = Unreachable("no answer")
    with pytest.raises(Unreachable):
        refresh(store, [job(store)])
    platform.trouble = None
    ((now, _),) = refresh(store, [store.by_name("job")])
    assert (now.state, now.attempt.number) == ("queued", 1)


def test_refused(store, platform):
    platform.trouble = UserError("quota exceeded")
    ((now, _),) = refresh(store, [job(store)])
    assert (now.state, now.exit_code) == ("failed", 137)


@pytest.mark.parametrize(
    ("wanted", "diagnosis", "troubled", "avoided"),
    [
        (True, Diagnosis("node", "mount failed", "event", nodes=["node-1"]), "", ["node-1"]),
        (True, Diagnosis("node", "mount failed", nodes=["node-10", "of another job"]), "", ["node-10"]),
        (True, Diagnosis("node", "mount failed"), "node-10", ["node-10"]),
        (True, Diagnosis("node", "mount failed"), "", []),
        (False, Diagnosis("node", "mount failed", nodes=["node-1"]), "", []),
        (True, Diagnosis("eviction", "evicted", nodes=["node-1"]), "", []),
    ],
)
def test_without_the_nodes_that_were_at_fault(store, platform, wanted, diagnosis, troubled, avoided):
    platform.diagnosis = diagnosis
    platform.replicas_are = [Replica(n, 0, n, problem="bad" if n == troubled else "") for n in ("node-1", "node-10")]
    ((now, _),) = refresh(store, [job(store, avoid_failed_nodes=wanted)])
    ((now, _),) = refresh(store, [now])
    assert platform.avoided == [avoided, avoided], "in the next attempt too"
    assert list(now.attempt.avoid) == avoided
