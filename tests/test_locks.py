"""Locks between processes, and the pauses of a loop that looks for something."""

from __future__ import annotations

import errno
import fcntl
import subprocess
import sys
import time

import pytest
from waiting import line_of

from nemo_runspec.locks import Busy, locked_file
from nemo_runspec.polling import Backoff, TimeLimit, tried

HOLDER = """
import sys, time
from pathlib import Path
from nemo_runspec.locks import locked_file
with locked_file(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock until it is written to, or killed."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path / "lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert line_of(process.stdout) == "held\n"
        yield process
        process.kill()


def test_a_lock_that_another_process_holds_is_busy(tmp_path, holder):
    with pytest.raises(Busy), locked_file(tmp_path / "lock", wait=False):
        pass
    with pytest.raises(Busy), locked_file(tmp_path / "lock", deadline=time.monotonic()):
        pass


def test_a_lock_is_free_once_its_holder_was_killed(tmp_path, holder):
    said = []
    with locked_file(tmp_path / "lock", on_wait=lambda: (said.append("waits"), holder.kill())):
        assert said == ["waits"]
    with locked_file(tmp_path / "lock", wait=False, on_wait=lambda: said.append("again")):
        assert said == ["waits"]


def test_a_lock_that_is_given_back_before_the_deadline_is_taken(tmp_path, holder):
    deadline = time.monotonic() + 600
    with locked_file(tmp_path / "lock", deadline=deadline, on_wait=lambda: holder.communicate("done")):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("number", "goes_on"), [(errno.ENOLCK, True), (errno.EOPNOTSUPP, True), (errno.EIO, False)])
def test_a_file_system_without_locks_keeps_nobody_from_working(tmp_path, monkeypatch, number, goes_on):
    def refuse(file, how):
        raise OSError(number, "no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    if goes_on:
        with locked_file(tmp_path / "lock"):
            return
    with pytest.raises(OSError, match="no locks here"), locked_file(tmp_path / "lock"):
        pass


def test_pauses_grow_up_to_the_longest_and_begin_again():
    waited = []
    pauses = Backoff(1, 5, growth=2, sleep=waited.append)
    for _ in range(4):
        pauses.wait()
    assert waited == [1, 2, 4, 5]
    pauses.reset()
    pauses.wait(at_most=0.5)
    pauses.wait()
    assert waited[4:] == [0.5, 2]
    assert pauses.pause(longest=3) == 3
    pauses.wait(at_most=-1)
    assert waited[-1] == 0


def test_a_time_limit():
    assert (TimeLimit(None).left, TimeLimit(None).passed) == (None, False)
    assert (TimeLimit(0).left, TimeLimit(0).passed, TimeLimit(-1).passed) == (0, True, True)
    assert not TimeLimit(600).passed
    assert 0 < TimeLimit(600).left <= 600


def test_what_may_pass_is_tried_again_and_ends_as_its_last_try():
    slept, raised = list[float](), [OSError("1"), OSError("2"), KeyError("3")]

    def act() -> str:
        if raised:
            raise raised.pop(0)
        return "done"

    def os_error(error: Exception) -> bool:
        return isinstance(error, OSError)

    with pytest.raises(OSError, match="2"):
        tried(act, (0.5,), os_error, slept.append)
    with pytest.raises(KeyError):
        tried(act, (1.0, 2.0), os_error, slept.append)
    assert tried(act, (), os_error, slept.append) == "done"
    assert slept == [0.5]
