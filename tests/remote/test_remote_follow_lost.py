"""A follower of a job that is not there: it asks again, for a minute, before it believes that."""

from __future__ import annotations

from itertools import groupby
from types import SimpleNamespace
from typing import Any

import pytest
from job_records import record, stored

from nemo_runspec.backends.provider import Results
from nemo_runspec.records import JobStore
from nemo_runspec.records.log_view import LogView
from nemo_runspec.records.status import JobStatus
from nemo_runspec.remote import follow, refresh

AWAY = JobStatus("unknown", "Slurm no longer knows it", absent=True)
RUNNING, DONE = JobStatus("running"), JobStatus("succeeded", exit_code=0)


class Scripted:
    """A platform that says one thing after the other, the last one for ever."""

    def __init__(self, *says: JobStatus) -> None:
        self.says = list(says)
        self.looks = 0

    def endpoint(self, handle: Any) -> str:
        return "a"

    def status(self, handles: Any, *, places: bool = False) -> list[JobStatus]:
        self.looks += 1
        return [self.says.pop(0) if len(self.says) > 1 else self.says[0]]

    def collect(self, handles: Any, seen: Any) -> list[Results]:
        return [Results()]

    def read_log(self, *_: Any, **__: Any) -> list[Any]:
        return []


@pytest.mark.parametrize(
    ("before", "says", "state", "shown", "least"),
    [
        ("running", (AWAY, DONE), "succeeded", ["unknown", "succeeded"], 0),
        ("running", (AWAY, AWAY, RUNNING, AWAY), "lost", ["unknown", "unknown", "running", "unknown", "lost"], 60),
        ("running", (AWAY,), "lost", ["unknown", "lost"], 60),
        ("lost", (AWAY,), "lost", ["lost"], 0),
        ("lost", (RUNNING, DONE), "succeeded", ["running", "succeeded"], 0),
    ],
    ids=["once", "for a while, and later for good", "for good", "lost before", "lost before, and there"],
)
def test_an_absence_is_believed_once_it_lasts(tmp_path, monkeypatch, before, says, state, shown, least):
    platform, seen, clock = Scripted(*says), [], [1e9]
    backend = SimpleNamespace(load_provider=lambda: platform)
    for module in (follow, refresh):
        monkeypatch.setattr(module, "get_backend", lambda name: backend)
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0], time=lambda: clock[0]))
    store = JobStore(tmp_path / "jobs")
    handle = {"host": "a", "name": "job", "job_dir": "/run/jobs/job", "id": "1"}
    states = ("planned", "submitting", "queued", "running", *([before] if before != "running" else []))
    job = stored(store, record("job", states, executor="slurm", handle=handle))
    watcher = SimpleNamespace(seen=lambda record, _: seen.append(record.state), clear=lambda: None)

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    ended = follow.Follower(store, job, watcher, LogView(lambda data: None), sleep=sleep).run()
    assert (ended.state, [state for state, _ in groupby(seen)]) == (state, [state for state, _ in groupby(shown)])
    assert store.by_name("job").state == state
    assert clock[0] - 1e9 >= least
    assert clock[0] - 1e9 < 300, "it does not take for ever"
