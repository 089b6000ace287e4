"""What a job has written before its end is read, and what it leaves behind is not waited for."""

from __future__ import annotations

import os
import subprocess
import time
from types import SimpleNamespace

import pytest
from waiting import LONG

from nemo_runspec.supervise import job
from nemo_runspec.supervise.job_input import JobInput


class Ended:
    """A job whose script has ended, and whose pipe another process still holds open."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def fileno(self) -> int:
        return self._pipe

    def read(self) -> bytes | None:
        return os.read(self._pipe, 4096)

    def poll(self) -> int:
        return 7


@pytest.fixture
def pipe():
    """Both ends of a pipe."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def pumped(work: Ended) -> bytes:
    """All that is given on of a job's output until its end."""
    got: list[bytes] = []
    output = SimpleNamespace(feed=got.append, tick=lambda: None)
    assert job.pump(work, output, lambda: None, JobInput()) == 7  # type: ignore[arg-type]
    return b"".join(got)


def test_nothing_is_lost_while_this_process_gets_no_processor(pipe, monkeypatch):
    """Seconds pass between any two of its steps."""
    away = iter(range(0, 100_000, 10))
    monkeypatch.setattr(job, "time", SimpleNamespace(monotonic=lambda: next(away), sleep=time.sleep))
    os.write(pipe[1], b"x" * 40_000)
    assert len(pumped(Ended(pipe[0]))) == 40_000


@pytest.mark.slow
def test_who_goes_on_writing_is_not_waited_for(pipe):
    left = subprocess.Popen(["yes"], stdout=pipe[1])
    try:
        assert b"y\n" in pumped(Ended(pipe[0]))
        assert left.poll() is None
    finally:
        left.kill()
        left.wait(LONG)
