"""Members in threads: how many at a time, what a failure and a signal do. What runs one is a stand-in."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from job_records import record
from sweep_records import ENDS, member
from waiting import LONG, until

from nemo_runspec.errors import UserError
from nemo_runspec.interrupts import Interrupts
from nemo_runspec.records.cancel_request import read_request
from nemo_runspec.sweeps.model import NOT_RUN, Options
from nemo_runspec.sweeps.run import RunContext, Runner
from nemo_runspec.sweeps.status import exit_code


class Notes:
    """A watcher that remembers what it was told, and in which thread."""

    def __init__(self):
        self.told = []
        self.threads = set()

    def _note(self, *what):
        self.threads.add(threading.current_thread())
        self.told.append(what)

    def started(self, member):
        self._note("started", member.index)

    def said(self, member, line):
        self._note("said", member.index, line)

    def ended(self, member):
        self._note("ended", member.index, member.state)

    def tick(self):
        self.threads.add(threading.current_thread())


def batch(size, first=0, **more):
    waiting = [member(index, {"lr": str(index)}, state=None, **more) for index in range(first, first + size)]
    return [(each, each.name) for each in waiting]  # the stand-in's plan is the job's name


def ended(name, state="succeeded"):
    return record(name, ("planned", "running", state), exit_code=ENDS[state])


def run(run_member, size, interrupts=None, top=Path("/nowhere"), **options):
    notes = Notes()
    runner = Runner(
        RunContext("sweep-x", ["nemotron"], interrupts or Interrupts(), notes, run_member), Options(**options)
    )
    return runner.run(batch(size, top=top)), notes, runner


@pytest.mark.parametrize("parallel", [1, 3])
def test_no_more_than_allowed_at_a_time_and_no_fewer(parallel):
    together, lock, most = set(), threading.Lock(), []
    meet = threading.Barrier(parallel)

    def run_member(planned, **_):
        with lock:
            together.add(planned)
            most.append(len(together))
        meet.wait(timeout=LONG)  # passes only where as many run as may
        with lock:
            together.discard(planned)
        return ended(planned)

    members, notes, _ = run(run_member, 6, max_parallel=parallel)
    assert max(most) <= parallel
    assert [m.state for m in members] == ["succeeded"] * 6
    assert [m.index for m in members] == list(range(6))
    assert notes.threads == {threading.main_thread()}
    assert [what[1] for what in notes.told if what[0] == "started"] == list(range(6))


def test_a_failure_does_not_stop_the_others():
    members, _, runner = run(lambda planned, **_: ended(planned, "failed" if planned == "job-0" else "succeeded"), 3)
    assert [m.state for m in members] == ["failed", "succeeded", "succeeded"]
    assert not runner.stopped
    assert exit_code(members) == 3


def test_unless_that_was_asked_for(tmp_path):
    """What runs is ended, even where its job is recorded only after that; nothing more is started, ever."""
    failed, wishes = threading.Event(), []

    def run_member(planned, **_):
        if planned == "job-0":
            failed.set()
            return ended(planned, "failed")
        assert failed.wait(LONG)
        folder = tmp_path / planned
        folder.mkdir()
        wishes.append(until(lambda: read_request(folder), "the sweep's wish").by)
        return ended(planned, "cancelled")

    members, _, runner = run(run_member, 5, top=tmp_path, max_parallel=2, stop_on_failure=True)
    assert [m.state for m in members] == ["failed", "cancelled", NOT_RUN, NOT_RUN, NOT_RUN]
    assert wishes == ["the sweep, as run 0 has failed"]
    assert exit_code(members) == 3
    assert runner.stopped
    assert [m.state for m in runner.run(batch(2, first=5))] == [NOT_RUN, NOT_RUN]


def test_after_a_signal_nothing_more_is_started():
    interrupts = Interrupts()

    def run_member(planned, **given):
        given["interrupts"].seen.append(2)
        return ended(planned, "cancelled")

    members, _, runner = run(run_member, 3, interrupts)
    assert [m.state for m in members] == ["cancelled", NOT_RUN, NOT_RUN]
    assert runner.stopped


@pytest.mark.parametrize(
    ("error", "code"),
    [(UserError("no room", where="/disk"), 2), (OSError(28, "No space left on device"), 1)],
    ids=["ours", "the system's"],
)
def test_a_member_that_cannot_be_recorded_has_failed(error, code):
    def run_member(planned, **_):
        if planned == "job-1":
            raise error
        return ended(planned)

    members, notes, _ = run(run_member, 3)
    assert [m.state for m in members] == ["succeeded", "failed", "succeeded"]
    assert str(error) in members[1].cause
    assert exit_code(members) == code
    assert ("ended", 1, "failed") in notes.told


def test_a_bug_is_not_taken_for_a_failed_member():
    def run_member(planned, **_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(run_member, 2)


def test_lines_come_before_the_end_they_belong_to():
    def run_member(planned, **given):
        given["say"](f"{planned}: hello")
        return ended(planned)

    _, notes, _ = run(run_member, 2)
    assert [what[:2] for what in notes.told] == [
        ("started", 0), ("said", 0), ("ended", 0), ("started", 1), ("said", 1), ("ended", 1),
    ]  # fmt: skip


def test_each_gets_the_group_and_the_command_line():
    seen = []

    def run_member(planned, *, argv, group, interrupts, say):
        seen.append((planned, list(argv), group))
        return ended(planned)

    run(run_member, 1)
    assert seen == [("job-0", ["nemotron"], "sweep-x")]


def test_a_cancelled_member_does_not_hide_a_failed_one():
    cancelled, failed = member(0, {}, state="cancelled"), member(1, {}, state="failed", exit_code=7)
    assert exit_code([cancelled, failed]) == 7
    assert exit_code([cancelled, member(1, {})]) == 130


def test_the_exit_code_of_a_sweep():
    good, lost = member(0, {}), member(2, {}, state="lost")
    assert exit_code([good]) == 0
    assert exit_code([good, member(1, {}, state="failed", exit_code=137), member(2, {}, state="failed")]) == 137
    assert exit_code([good, lost]) == 1
    assert exit_code([good, member(1, {}, state=None)]) == 1
