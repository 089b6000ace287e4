"""Which of the other nodes node 0 of a job of pods ends as: the one that failed first, as all the others do."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from nemo_runspec.jobside.barriers import Barriers
from nemo_runspec.jobside.pod.others import Others
from nemo_runspec.jobside.records import Folder

NODES = 11


def others(tmp_path: Path, ends: dict[int, int]) -> Others:
    """Node 0, whose command has succeeded, once the commands of all have ended."""
    folder = tmp_path / "gates"
    folder.mkdir()
    status = Folder(str(tmp_path))
    for node in range(1, NODES):
        status.write(f"node-{node}", {"attempt": 0, "exit_code": ends.get(node, 0)})
    job = SimpleNamespace(nodes=NODES, attempt="0", moves=())
    pod: Any = SimpleNamespace(index=0, job=job, status=status, told="", lost=300, lives=1)
    pod.barriers = Barriers(str(folder), 0, NODES, 0)
    return Others(pod)


def fail(tmp_path: Path, task: int, exit_code: int, blames: int, ended: float) -> None:
    Barriers(str(tmp_path / "gates"), task, NODES, 0).fail(exit_code, f"node {blames} failed", blames, ended)


def test_it_ends_as_the_one_that_failed_first(tmp_path: Path):
    waiting = others(tmp_path, {2: 9, 10: 7})
    fail(tmp_path, 2, 9, 2, 100.2)
    fail(tmp_path, 10, 7, 10, 100.0)
    ended = waiting.wait_for_commands(0)
    assert (ended.exit_code, ended.blames, ended.reason) == (7, 10, "node 10 failed: exit code 7")


def test_it_names_the_one_that_failed_and_none_that_followed_it(tmp_path: Path):
    waiting = others(tmp_path, {1: 7, 3: 7})
    fail(tmp_path, 1, 7, 3, 101.0)
    fail(tmp_path, 3, 7, 3, 100.0)
    ended = waiting.wait_for_commands(0)
    assert (ended.exit_code, ended.blames, ended.reason) == (7, 3, "node 3 failed: exit code 7")


def test_one_of_which_nobody_was_told_is_named_itself(tmp_path: Path):
    ended = others(tmp_path, {4: 6}).wait_for_commands(0)
    assert (ended.exit_code, ended.blames) == (6, 4)


def test_its_own_failure_stays(tmp_path: Path):
    waiting = others(tmp_path, {2: 9})
    fail(tmp_path, 2, 9, 2, 100.0)
    ended = waiting.wait_for_commands(3)
    assert (ended.exit_code, ended.blames) == (3, None)
