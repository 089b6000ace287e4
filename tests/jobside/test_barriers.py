"""Barriers of a job's tasks, which meet by files: each here is a process or a thread of its own, as on its own node."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from waiting import until

from nemo_runspec.jobside.barriers import Barriers, Failure
from nemo_runspec.script.markers import NodeMarker, deciding_marker

LONG = 120


class Paused(Exception):
    """A barrier has begun to wait."""


def stop(_seconds: float) -> None:
    raise Paused


def barriers(folder: Path, task: int, tasks: int = 2, patience: int = LONG) -> Barriers:
    return Barriers(str(folder), task, tasks, patience)


def failure_of(gate: Barriers, name: str = "met") -> Failure:
    with pytest.raises(Failure) as caught:
        gate.reach(name, stop)
    return caught.value


def test_one_task_meets_itself_and_leaves_nothing(tmp_path: Path):
    barriers(tmp_path / "none", 0, 1).reach("met", stop)
    assert not (tmp_path / "none").exists()


TASK = """
import sys, time
from nemo_runspec.jobside.barriers import Barriers
gate = Barriers(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), 120)
for name in ("met", "setup", "ray"):
    gate.reach(name, lambda seconds: time.sleep(0.01))
    there = [task for task in range(gate.tasks) if gate.has_come(name, task)]
    assert len(there) == gate.tasks, there
print("through")
"""


def test_nobody_goes_on_before_all_have_come(tmp_path: Path):
    words = [sys.executable, "-c", TASK, str(tmp_path)]
    tasks = [subprocess.Popen([*words, str(n), "4"], stdout=subprocess.PIPE, text=True) for n in range(3)]
    until(lambda: sorted(path.name for path in tmp_path.iterdir()) == ["met.0", "met.1", "met.2"], "three of four")
    assert [task.poll() for task in tasks] == [None] * 3
    tasks.append(subprocess.Popen([*words, "3", "4"], stdout=subprocess.PIPE, text=True))
    assert [task.communicate(timeout=LONG)[0] for task in tasks] == ["through\n"] * 4


def test_it_waits_for_each_that_has_not_come(tmp_path: Path):
    for come in range(3):
        with pytest.raises(Paused):
            barriers(tmp_path, come, 4).reach("met", stop)
    barriers(tmp_path, 3, 4).reach("met", stop)
    barriers(tmp_path, 0, 4).reach("met", stop)


def test_barriers_of_different_names_are_different(tmp_path: Path):
    barriers(tmp_path, 1).say("met")
    with pytest.raises(Paused):
        barriers(tmp_path, 0).reach("setup", stop)


def test_one_that_does_not_come_in_time_is_named(tmp_path: Path):
    barriers(tmp_path, 1, 3).say("met")
    failed = failure_of(barriers(tmp_path, 0, 3, patience=0))
    assert (failed.reason, failed.exit_code, failed.blames) == ("task 2 of 3 did not reach 'met' within 0 s", 1, None)


def test_a_failure_ends_the_wait_of_all_others_with_its_exit_code(tmp_path: Path):
    barriers(tmp_path, 5, 6).fail(7, "node 2 failed in its setup", 2)
    failed = failure_of(barriers(tmp_path, 0, 6))
    assert (failed.reason, failed.exit_code, failed.blames) == ("node 2 failed in its setup", 7, 2)


def test_who_has_come_is_through_though_another_has_failed_since(tmp_path: Path):
    """Else some would go on and others not."""
    barriers(tmp_path, 1).say("met")
    barriers(tmp_path, 1).fail(1, "later", 1)
    barriers(tmp_path, 0).reach("met", stop)
    with pytest.raises(Failure, match="later"):
        barriers(tmp_path, 0).heed_failures()


@pytest.mark.parametrize("text", ["", "{", '{"exit_code": ', "[]"])
def test_a_failure_that_is_not_whole_is_not_heeded_yet(tmp_path: Path, text: str):
    (tmp_path / "failed.1").write_text(text)
    (tmp_path / "failed.1.77.tmp").write_text("{}")
    (tmp_path / "failed.x").write_text('{"exit_code": 3}')
    assert barriers(tmp_path, 0).first_failure() is None


def test_of_several_failures_all_see_the_one_that_was_first(tmp_path: Path):
    """By time, as what they have written down is read later; node 10 does not come before node 2 by its name."""
    for task, ended in ((10, 100.2), (2, 100.0), (1, 100.4)):
        barriers(tmp_path, task, 11).fail(task, f"node {task}", task, ended)
    first = {"exit_code": 2, "reason": "node 2", "node": 2, "ended": 100.0}
    assert [barriers(tmp_path, task, 11).first_failure() for task in range(11)] == [first] * 11
    failed = failure_of(barriers(tmp_path, 0, 11))
    assert (failed.reason, failed.exit_code, failed.blames) == ("node 2", 2, 2)
    markers = [NodeMarker(10, 10, ended=100.2), NodeMarker(2, 2, ended=100.0), NodeMarker(1, 1, ended=100.4)]
    told = deciding_marker(markers)
    assert told is not None and told.node == failed.blames


def test_failures_of_one_moment_are_told_apart_by_their_nodes_numbers(tmp_path: Path):
    for task in (10, 9):
        barriers(tmp_path, task, 11).fail(task, f"node {task}", task, 100.0)
    assert failure_of(barriers(tmp_path, 0, 11)).blames == 9


def test_failures_that_do_not_say_when_come_last_by_their_numbers(tmp_path: Path):
    """As supervisors wrote them that know no time."""
    for node in (10, 2):
        (tmp_path / f"failed.{node}").write_text(f'{{"exit_code": {node}, "reason": "node {node}", "node": {node}}}\n')
    assert failure_of(barriers(tmp_path, 0, 11)).blames == 2
    barriers(tmp_path, 5, 11).fail(5, "node 5", 5)
    assert failure_of(barriers(tmp_path, 0, 11)).blames == 5


def test_a_folder_that_vanishes_is_said(tmp_path: Path):
    folder = tmp_path / "gates"
    folder.mkdir()
    with pytest.raises(Paused):
        barriers(folder, 0).reach("met", stop)
    shutil.rmtree(folder)
    assert failure_of(barriers(folder, 0)).reason == "the job's directory cannot be written: No such file or directory"


def test_it_vanishes_while_somebody_waits(tmp_path: Path):
    """Nobody comes any more: the wait ends with its time."""
    folder = tmp_path / "gates"
    folder.mkdir()
    gate = barriers(folder, 0, patience=1)
    with pytest.raises(Failure, match="task 1 of 2 did not reach"):
        gate.reach("met", lambda seconds: shutil.rmtree(folder, ignore_errors=True))
    gate.fail(1, "nobody reads it", 0)
    assert gate.first_failure() is None and gate.told() == []


def test_what_the_whole_job_is_told_is_read_in_its_order(tmp_path: Path):
    for number, name in ((1, "USR1"), (2, "TERM"), (4, "INT")):
        (tmp_path / f"told.{number}").write_text(f"{name}\n")
    assert barriers(tmp_path, 0).told() == ["USR1", "TERM"]


def test_many_tasks_come_at_once(tmp_path: Path):
    with ThreadPoolExecutor(32) as pool:
        ended = list(pool.map(lambda n: barriers(tmp_path, n, 32).reach("met", lambda _: os.sched_yield()), range(32)))
    assert ended == [None] * 32
