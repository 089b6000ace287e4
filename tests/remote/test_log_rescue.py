"""Logs of jobs that are being stopped: here before they go with their pods, and never in the way of the stop."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from job_records import record, stored
from waiting import LONG

from nemo_runspec.backends.capabilities import KeepsJobs
from nemo_runspec.backends.provider import Handle, LogChunk
from nemo_runspec.errors import UserError
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.follow import log_of
from nemo_runspec.remote import cancel, log_rescue
from nemo_runspec.remote.cancel import stop_all
from nemo_runspec.remote.log_rescue import rescue_logs, rescue_logs_for


@KeepsJobs.register
class Cloud:
    """Its pods' log grows by a line with each question, and is gone once the job is stopped."""

    def __init__(self) -> None:
        self.asked = 0
        self.stopped = False
        self.trouble: UserError | None = None
        self.hangs: threading.Event | None = None

    def endpoint(self, handle: Handle) -> str:
        return "there"

    def delete_remote(self, handle: Handle) -> Sequence[str]:
        return []

    def stop(self, handles: Sequence[Handle], by: str, *, hard: bool = False) -> None:
        self.stopped = True

    def read_log(self, handle: Handle, offsets: Mapping[str, int], limit: int) -> list[LogChunk]:
        if self.hangs:
            self.hangs.wait(60)
        if self.trouble:
            raise self.trouble
        self.asked += 1
        line = f"line {self.asked}\n".encode()
        return [] if self.stopped else [LogChunk("pod", offsets.get("pod", 0), line)]


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore(tmp_path / "jobs")


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Cloud:
    found = Cloud()
    monkeypatch.setattr(cancel, "get_backend", lambda name: SimpleNamespace(load_provider=lambda: found))
    return found


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing hangs here: what is late by seconds is only slow."""
    monkeypatch.setattr(cancel, "rescue_logs", partial(rescue_logs, seconds=LONG))
    monkeypatch.setattr(log_rescue, "rescue_logs", lambda *what, seconds: rescue_logs(*what, seconds=LONG))


@pytest.fixture
def job(store: JobStore) -> JobRecord:
    return stored(store, record("job", ("planned", "queued", "running"), executor="cloud", handle={"id": "j-0"}))


def log(store: JobStore) -> bytes:
    file = log_of(store.folder("job"))
    return file.read_bytes() if file.exists() else b""


def test_what_there_is_is_here_before_a_job_is_stopped(store, cloud, job, patient):
    stop_all([job], "me", hard=False, store=store)
    assert (cloud.stopped, log(store)) == (True, b"line 1\n")


def test_what_it_writes_while_it_ends_is_fetched(store, cloud, job, patient):
    slept: list[float] = []
    rescue_logs_for(store, [job], lambda _: cloud, 2.0, slept.append)
    assert log(store) == b"line 1\nline 2\nline 3\nline 4\n"
    assert sum(slept) == 2.0


def test_a_log_that_cannot_be_fetched_keeps_no_job_running(store, cloud, job):
    cloud.trouble = UserError("no permission")
    stop_all([job], "me", hard=False, store=store)
    assert cloud.stopped


def test_one_that_hangs_is_left(store, cloud, job):
    cloud.hangs = threading.Event()
    rescue_logs(store, [job], lambda _: cloud, seconds=0.1)
    assert cloud.asked == 0, "nobody has waited for it"
    cloud.hangs.set()
