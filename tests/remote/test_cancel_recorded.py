"""Who wanted a job stopped is on record before its platform is told, so that nobody submits it again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from job_records import record, stored

from nemo_runspec.backends.provider import Handle, Results
from nemo_runspec.errors import UserError
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.facts import JobFacts
from nemo_runspec.records.status import JobStatus
from nemo_runspec.remote import cancel, unconfirmed
from nemo_runspec.remote import refresh as refreshing
from nemo_runspec.remote.cancel import end_now, stop_all
from nemo_runspec.transport.base import Unreachable


class Platform:
    """What it was told to stop, and what was on record then."""

    def __init__(self, store: JobStore) -> None:
        self.store = store
        self.told: list[tuple[str, str]] = []
        self.answer: UserError | None = None
        self.refused: str | None = None
        self.there: int | None = None
        self.stopped: list[str] = []
        self.looks = self.removed = 0

    def endpoint(self, handle: Handle) -> str:
        return "there"

    def stop(self, handles: Sequence[Handle], by: str, *, hard: bool = False) -> None:
        for handle in handles:
            self.told.append((str(handle["id"]), str(self.store.by_name("job").stopped_by or None)))
        if self.answer and self.refused in (None, *(handle["id"] for handle in handles)):
            raise self.answer
        self.stopped += [str(handle["id"]) for handle in handles]

    def status(self, handles: Sequence[Handle], *, places: bool = False) -> list[JobStatus]:
        self.looks += 1
        if self.stopped:
            return [JobStatus("cancelled", exit_code=143) for _ in handles]
        there = self.there is not None and self.looks > self.there
        return [
            JobStatus("running", facts=JobFacts(id="j-7")) if there else JobStatus("failed", gone=True) for _ in handles
        ]

    def collect(self, handles: Sequence[Handle], seen: Sequence[JobStatus]) -> list[Results]:
        return [Results() for _ in handles]

    def delete_files(self, handle: Handle) -> None:
        self.removed += 1


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore(tmp_path / "jobs")


@pytest.fixture
def platform(store: JobStore, monkeypatch: pytest.MonkeyPatch) -> Platform:
    found = Platform(store)
    for module in (cancel, refreshing):
        monkeypatch.setattr(module, "get_backend", lambda name: SimpleNamespace(load_provider=lambda: found))
    monkeypatch.setattr(unconfirmed, "PAUSES", (0.0, 0.0, 0.0))
    return found


@pytest.fixture
def job(store: JobStore) -> JobRecord:
    return stored(store, record("job", ("planned", "queued", "running"), executor="cloud", handle={"id": "j-0"}))


def wish(store: JobStore) -> str | None:
    return store.by_name("job").stopped_by or None


def test_the_first_who_wished_it_stays_named(store, platform, job):
    stop_all([job], "me", hard=False, store=store)
    stop_all([job], "you", hard=True, store=store)
    assert (wish(store), platform.told) == ("me", [("j-0", "me"), ("j-0", "me")])


def test_what_is_stopped_is_the_attempt_that_runs(store, platform, job):
    """The caller may hold a record of before it was submitted again."""
    store.note(job, handle={"id": "j-1"})
    stop_all([job], "me", hard=False, store=store)
    assert platform.told == [("j-1", "me")]


@pytest.mark.parametrize(("answer", "left"), [(UserError("no permission"), None), (Unreachable("no answer"), "me")])
def test_a_refusal_takes_the_wish_back(store, platform, job, answer, left):
    """Where nothing answers it may have been done, and the wish stays."""
    platform.answer = answer
    with pytest.raises(UserError):
        stop_all([job], "me", hard=False, store=store)
    assert wish(store) == left


def test_one_that_is_refused_keeps_nobody_from_stopping_the_others(store, platform, job):
    jobs = [stored(store, record(f"job-{n}", ("planned", "queued"), handle={"id": f"j-{n}"})) for n in range(3)]
    platform.answer, platform.refused = UserError("no permission"), "j-1"
    with pytest.raises(UserError, match="job-1: not stopped: no permission"):
        stop_all(jobs, "me", hard=False, store=store)
    assert platform.stopped == ["j-0", "j-2"]
    assert [store.by_name(each.name).stopped_by or None for each in jobs] == ["me", None, "me"]


@pytest.mark.parametrize("there", [2, None])
def test_a_submission_that_was_interrupted_may_still_arrive(store, platform, there):
    """Its request was sent: that the job is not there yet does not say that it never will be."""
    handle = {"name": "job", "attempt": 0, "sent": time.time()}
    sent = stored(store, record("job", ("planned", "submitting"), executor="cloud", handle=handle))
    platform.there = there
    now = end_now(store, sent, "Ctrl-C")
    assert (now.state, platform.stopped) == ("cancelled", [] if there is None else ["j-7"])
    assert ("job is not there, and might still turn up" in now.cause) is (there is None)
    assert (platform.removed, now.sent is not None) == ((1, True) if there is None else (0, False))


def test_a_submission_that_was_interrupted_before_it_was_sent(store, platform):
    early = stored(store, record("early", ("planned", "submitting"), handle={"name": "early", "attempt": 0}))
    now = end_now(store, early, "Ctrl-C")
    assert (now.cause, platform.looks) == ("cancelled by Ctrl-C before it was submitted", 1)
