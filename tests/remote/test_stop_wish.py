"""Who wanted a job stopped is on record before its platform is told, so that nobody submits it again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from recordkit import record, stored

from nemo_runspec.errors import UserError
from nemo_runspec.jobs import JobRecord, JobStore
from nemo_runspec.remote import control
from nemo_runspec.remote.control import stop_all
from nemo_runspec.remote.provider import Handle
from nemo_runspec.transport.base import Unreachable


class Platform:
    """What it was told to stop, and what was on record then."""

    def __init__(self, store: JobStore) -> None:
        self.store = store
        self.told: list[tuple[str, str]] = []
        self.answer: UserError | None = None

    def host_of(self, handle: Handle) -> str:
        return "there"

    def stop(self, handles: Sequence[Handle], by: str, *, hard: bool = False) -> None:
        for handle in handles:
            self.told.append((str(handle["id"]), str(self.store.by_name("job").handle.get("stopped_by"))))
        if self.answer:
            raise self.answer


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore(tmp_path / "jobs")


@pytest.fixture
def platform(store: JobStore, monkeypatch: pytest.MonkeyPatch) -> Platform:
    found = Platform(store)
    monkeypatch.setattr(control, "get_backend", lambda name: SimpleNamespace(load_provider=lambda: found))
    return found


@pytest.fixture
def job(store: JobStore) -> JobRecord:
    return stored(store, record("job", ("planned", "queued", "running"), executor="cloud", handle={"id": "j-0"}))


def wish(store: JobStore) -> str | None:
    return store.by_name("job").handle.get("stopped_by")


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
