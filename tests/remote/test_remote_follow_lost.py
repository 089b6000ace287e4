"""A follower that hears that its job is lost: it asks again before it believes that."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from recordkit import record, stored

from nemo_runspec.jobs import JobStore
from nemo_runspec.remote import follow, refresh
from nemo_runspec.remote.provider import Rest, Seen

LOST, RUNNING, DONE = Seen("lost", "Slurm no longer knows it"), Seen("running"), Seen("succeeded", exit_code=0)


class Scripted:
    """A platform that says one thing after the other, the last one for ever."""

    def __init__(self, *says: Seen) -> None:
        self.says = list(says)
        self.looks = 0

    def host_of(self, handle: Any) -> str:
        return "a"

    def look(self, handles: Any, *, places: bool = False) -> list[Seen]:
        self.looks += 1
        return [self.says.pop(0) if len(self.says) > 1 else self.says[0]]

    def rest(self, handles: Any, seen: Any) -> list[Rest]:
        return [Rest()]

    def tail(self, *_: Any, **__: Any) -> list[Any]:
        return []


@pytest.mark.parametrize(
    ("says", "state", "looks", "shown"),
    [
        ((LOST, DONE), "succeeded", 2, ["succeeded"]),
        ((LOST, LOST, LOST, RUNNING, LOST), "lost", 8, ["running", "lost"]),
        ((LOST,), "lost", 4, ["lost"]),
    ],
    ids=["once", "for a while, and later for good", "for good"],
)
def test_lost_is_not_believed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says, state, looks, shown):
    platform, seen, clock = Scripted(*says), [], [0.0]
    backend = SimpleNamespace(load_provider=lambda: platform)
    for module in (follow, refresh):
        monkeypatch.setattr(module, "get_backend", lambda name: backend)
    monkeypatch.setattr(follow, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    store = JobStore(tmp_path / "jobs")
    handle = {"host": "a", "name": "job", "job_dir": "/run/jobs/job", "id": "1"}
    job = stored(store, record("job", ("planned", "submitting", "queued", "running"), executor="slurm", handle=handle))
    watcher = SimpleNamespace(seen=lambda record, _: seen.append(record.state), clear=lambda: None)

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    ended = follow.Follower(store, job, watcher, lambda data: None, sleep=sleep).run()
    assert (ended.state, platform.looks, seen) == (state, looks, shown)
    assert store.by_name("job").state == state
