"""What becomes of a job after an attempt, by all that may be known then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_runspec.backends.slurm.jobside.attempt_end import Attempts, Facts, QueueState, decide, is_near
from nemo_runspec.backends.slurm.jobside.job import BatchJob

RUNNING, ENDING = {"name": "RUNNING"}, {"name": "COMPLETING"}
LIMIT = {**ENDING, "reason": "TimeLimit"}
RESUME = {"resume": True, "max_restarts": 2}
SIGNAL = "SIGTERM before the time limit"
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], tuple[str, str, int]]] = {
    # settings, facts, Slurm's state, outcome: its name, its code, the exit code of what is unfinished
    "done": ({}, {}, RUNNING, ("over", "done", 0)),
    "failed": ({}, {"exit_code": 3}, RUNNING, ("over", "", 0)),
    "retried": ({"retries": 1}, {"exit_code": 3}, RUNNING, ("retried", "", 0)),
    "cancelled": ({"retries": 1}, {"exit_code": 3, "cancelled": "me"}, RUNNING, ("over", "cancelled", 0)),
    "back": ({}, {"exit_code": 3}, {"name": "PENDING", "starts": "1"}, ("slurm", "", 0)),
    "ended": ({"retries": 1}, {"exit_code": 143}, ENDING, ("over", "slurm", 0)),
    "limit": ({"retries": 1}, {"exit_code": 143}, LIMIT, ("over", "", 124)),
    "limit, resume": (RESUME, {"exit_code": 143}, LIMIT, ("continued", "", 0)),
    "told, 0, resume": (RESUME, {"interrupted": SIGNAL}, RUNNING, ("continued", "", 0)),
    "told, 0": ({}, {"interrupted": SIGNAL}, RUNNING, ("over", "cut_short", 0)),
    "told, 5": ({"retries": 1}, {"interrupted": SIGNAL, "exit_code": 5}, RUNNING, ("over", "", 0)),
    "spent": ({"resume": True}, {"interrupted": SIGNAL}, RUNNING, ("over", "restarts", 124)),
    "stalled": ({"retries": 1}, {"exit_code": 124, "verdict": "requeue stall"}, RUNNING, ("requeued", "", 0)),
    "stop": ({"retries": 1}, {"exit_code": 124, "verdict": "stop stall"}, RUNNING, ("over", "", 0)),
    "unbegun": ({}, {"unbegun": True}, RUNNING, ("over", "setup_lines", 1)),
    "unbegun, retried": ({"retries": 1}, {"unbegun": True}, RUNNING, ("retried", "", 1)),
    "silent": ({"retries": 1}, {"exit_code": 3}, {}, ("retried", "", 0)),
}


def job_of(monkeypatch: pytest.MonkeyPatch, folder: Path, **settings: Any) -> BatchJob:
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    for name in ("SLURM_RESTART_COUNT", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    job = BatchJob(json.dumps({"name": "job", "script": "scripts/job.sh", **settings}), str(folder))
    job.status.make()
    return job


@pytest.mark.parametrize("case", CASES)
def test_what_becomes_of_a_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, case: str):
    settings, facts, state, expected = CASES[case]
    job = job_of(monkeypatch, tmp_path, **settings)
    found = decide(job, Attempts(job.status, ""), Facts(**{"exit_code": 0, "state": QueueState(**state), **facts}))
    assert (found.name, found.code, found.unfinished) == expected


def test_retries_are_counted_apart_from_restarts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("SLURM_RESTART_COUNT", "2")
    job = job_of(monkeypatch, tmp_path, retries=1, **RESUME)
    job.restarts = 2
    attempts = Attempts(job.status, "")
    attempts.add("attempt=0 exit_code=3 fate=retried ended=1 reason_code= reason=x")
    assert decide(job, attempts, Facts(3, QueueState(**RUNNING))).name == "over"
    assert decide(job, attempts, Facts(0, QueueState(**RUNNING), interrupted=SIGNAL)).name == "continued"
    attempts.add("attempt=1 exit_code=3 fate=continued ended=1 reason_code= reason=x")
    job.restarts = 3
    assert decide(job, attempts, Facts(0, QueueState(**RUNNING), interrupted=SIGNAL)).name == "over"


@pytest.mark.parametrize(
    ("name", "state", "near"),
    [
        ("TERM", {"name": "RUNNING", "ends": "1000"}, True),
        ("USR1", {"name": "RUNNING", "ends": "1000"}, True),
        ("TERM", {"name": "RUNNING", "ends": "9000"}, False),
        ("TERM", {"name": "RUNNING", "ends": "Unknown"}, False),
        ("TERM", {"name": "RUNNING", "ends": "9000", "preempted": "99999999999"}, True),
        ("TERM", {"name": "RUNNING", "ends": "9000", "preempted": "1"}, False),
        ("TERM", {}, True),
        ("USR1", {}, False),
    ],
)
def test_a_signal_of_slurms_before_the_end_is_told_from_one_that_somebody_sent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, state: dict[str, str], near: bool
):
    job = job_of(monkeypatch, tmp_path, signal="TERM", lead=300)
    assert is_near(job, QueueState(**state), name, 900) is near


@pytest.mark.parametrize(
    "name", ["COMPLETING", "CANCELLED", "NODE_FAIL", "BOOT_FAIL", "PENDING", "REQUEUE_HOLD", "TIMEOUT"]
)
def test_states_of_a_job_that_slurm_ends(name: str):
    assert QueueState(name).is_ending
    assert not any(QueueState(other).is_ending for other in ("", "RUNNING", "SIGNALING", "CONFIGURING", "SUSPENDED"))
