"""When a running job is asked to stop, and when it is not."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from nemo_runspec.interrupts import Interrupts
from nemo_runspec.records.cancel_request import CancelRequest, read_request, write_request
from nemo_runspec.supervise.stop import Stop, why_stopped


class Work:
    """A job that does nothing, and what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def terminate(self) -> None:
        self.told.append("TERM")

    def kill(self) -> None:
        self.told.append("KILL")


@pytest.fixture
def work():
    return Work()


def stop_of(work, folder, grace=60.0, interrupts=None):
    return Stop(work, interrupts or Interrupts(), folder, grace, lambda line: None)


def test_a_wish_ends_it_once_and_its_grace_counts(tmp_path, work):
    stop = stop_of(work, tmp_path)
    stop.tick()
    assert (work.told, stop.asked) == ([], False)
    write_request(tmp_path, CancelRequest(0.0, "me"))
    stop.tick()
    stop.tick()
    assert work.told[:2] == ["TERM", "KILL"]
    assert why_stopped(Interrupts(), tmp_path).words == "me"


@pytest.mark.parametrize("looks", [0, 3], ids=["at once", "late"])
def test_the_signal_that_announces_a_wish_is_not_a_second_one(tmp_path, work, looks):
    interrupts = Interrupts()
    stop = stop_of(work, tmp_path, interrupts=interrupts)
    write_request(tmp_path, CancelRequest(60.0, "me", announced=True))
    for _ in range(looks):
        stop.tick()
    interrupts.seen.append(15)
    stop.tick()
    assert work.told == ["TERM"]
    interrupts.seen.append(15)
    stop.tick()
    assert work.told == ["TERM", "KILL"]


@pytest.mark.parametrize(("announced", "number"), [(False, 15), (True, 2)])
def test_another_signal_is(tmp_path, work, announced, number):
    interrupts = Interrupts()
    stop = stop_of(work, tmp_path, interrupts=interrupts)
    write_request(tmp_path, CancelRequest(60.0, "me", announced=announced))
    stop.tick()
    interrupts.seen.append(number)
    stop.tick()
    assert work.told == ["TERM", "KILL"]


def test_a_wish_after_a_signal_says_how_long_and_does_not_tell_the_job_again(tmp_path, work):
    interrupts = Interrupts()
    stop = stop_of(work, tmp_path, interrupts=interrupts)
    interrupts.seen.append(2)
    stop.tick()
    write_request(tmp_path, CancelRequest(600.0, "me", announced=True))
    interrupts.seen.append(15)
    stop.tick()
    assert work.told == ["TERM"] and stop.time_left() > 300


def test_a_removed_folder_ends_it(tmp_path, work):
    stop = stop_of(work, tmp_path / "gone")
    stop.tick()
    assert work.told == ["TERM"]


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EACCES])
def test_a_file_system_that_fails_for_a_moment_ends_nothing(tmp_path, work, monkeypatch, number):
    def fail(*_args, **_more):
        raise OSError(number, "not now", str(tmp_path))

    stop = stop_of(work, tmp_path)
    monkeypatch.setattr(Path, "stat", fail)
    monkeypatch.setattr(Path, "read_text", fail)
    stop.tick()
    assert work.told == []


def test_a_wish_that_cannot_be_understood_is_one(tmp_path):
    (tmp_path / "cancel.json").write_text("{")
    assert read_request(tmp_path).by == "another process"
