"""Lepton's words in ours: a table, and what is not in it stays unknown."""

from __future__ import annotations

import pytest

from nemo_runspec.backends.lepton.replicas import (
    is_failing,
    out_of_memory,
    phase_of,
    read_event,
    read_replica,
    waiting_of,
)
from nemo_runspec.backends.lepton.states import mapping_of, seconds_of

JOB = "train-1121-abcd-9x8y"


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({"state": "Queueing"}, "queued"), ({"state": "Awaiting"}, "queued"), ({"state": "PendingRetry"}, "queued"),
        ({"state": "Starting"}, "starting"), ({"state": "Restarting"}, "starting"),
        ({"state": "Running", "ready": 1, "active": 1}, "running"), ({"state": "Running"}, "running"),
        ({"state": "Running", "active": 1}, "running"), ({"state": "Running", "ready": None, "active": 1}, "running"),
        ({"state": "Running", "ready": 0, "active": 2}, "starting"),
        ({"state": "Running", "ready": 1, "active": 2}, "starting"), ({"state": "Stopping"}, "running"),
        ({"state": "Completed"}, "succeeded"), ({"state": "Failed"}, "failed"), ({"state": "Stopped"}, "cancelled"),
        ({"state": "Deleted"}, "cancelled"), ({"state": "Hibernating"}, "unknown"), ({"state": None}, "unknown"),
        ({"state": "Archived", "succeeded": 2}, "succeeded"), ({"state": "Archived", "succeeded": 1}, "lost"),
        ({"state": "Archived", "failed": 1, "succeeded": 1}, "failed"), ({"state": "Archived"}, "lost"),
        ({"state": "Archived", "failed": 1, "succeeded": 2}, "succeeded"),
        ({"state": "Archived", "job_history": [{"state": "Failed"}, {"state": "Completed"}]}, "succeeded"),
        ({"state": "Archived", "job_history": [{"state": "Failed"}]}, "failed"), ({}, "unknown"),
    ],
)  # fmt: skip
def test_states(status, state):
    assert mapping_of({"status": status, "spec": {"completions": 2}}).state == state


def test_an_unknown_word_is_shown():
    assert "'Hibernating'" in mapping_of({"status": {"state": "Hibernating"}}).reason


def test_an_archived_job_that_was_stopped():
    assert mapping_of({"status": {"state": "Archived"}, "spec": {"stopped": True}}).state == "cancelled"


@pytest.mark.parametrize("time", [1_700_000_000, 1_700_000_000_000, 1_700_000_000_000_000, 1_700_000_000 * 10**9])
def test_times_in_any_part_of_a_second(time):
    assert seconds_of(time) == 1_700_000_000


@pytest.mark.parametrize("time", [None, 0, -1, "soon", True])
def test_what_is_no_time(time):
    assert seconds_of(time) is None


def replica(index: int, reason: str = "", message: str = "", node: str = "") -> dict:
    issue = {"readiness_issue": {"reason": reason, "message": message}} if reason else {}
    place = {"node": {"name": node, "id": node}} if node else {}
    return {"metadata": {"id": f"{JOB}-{index}-x1y2z"}, "status": {**place, **issue}}


@pytest.mark.parametrize(
    ("reason", "message", "problem", "phase"),
    [
        ("InProgress", "Pulling image", "pulling the image", "pull"),
        ("Failed", "401 Unauthorized from nvcr.io: pull access denied", "the image cannot be pulled", "pull"),
        ("InProgress", "Back-off pulling image, failed", "the image cannot be pulled", "pull"),
        ("Queueing", "Insufficient nvidia.com/gpu", "no capacity", "queue"),
        ("NoCapacity", "", "no capacity", "queue"),
        ("Queueing", "Waiting for resources", "waiting for nodes", "queue"),
        ("ConfigError", "Mount point not found", "its storage cannot be mounted", "start"),
        ("ConfigError", "GPU error", "its node cannot run it", "start"),
        ("InProgress", "Creating container", "starting", "start"),
        ("Frozen", "solid", "Frozen", "start"),
        ("", "", "", "start"),
    ],
)
def test_why_a_pod_waits(reason, message, problem, phase):
    read = read_replica(replica(1, reason, message), JOB)
    assert (read.index, read.problem) == (1, problem)
    assert phase_of([read], "start") == phase


@pytest.mark.parametrize(
    ("said", "failing"),
    [
        ("401 Unauthorized", True),
        ("manifest unknown: not found", True),
        ("x509: certificate signed by unknown authority", True),
        ("dial tcp: lookup nvcr.io on 10.96.0.10:53: no such host", True),
        ("dial tcp: lookup nvcr.io on 10.96.0.10:53: server misbehaving", False),
        ("dial tcp: lookup nvcr.io: Temporary failure in name resolution", False),
        ("connect: network is unreachable", False),
        ("connect: no route to host", False),
        ("net/http: TLS handshake timeout", False),
        ("connect: connection refused", False),
        ("502 Bad Gateway", False),
    ],
)
@pytest.mark.parametrize("reason", ["Failed", "InProgress"])
def test_a_pull_that_fails(reason, said, failing):
    """Each is a pull that failed; what registry, certificate or name server will say again is worth giving up for."""
    read = read_replica(replica(0, reason, f'Failed to pull image "nvcr.io/nvidia/nemo:25.11": {said}'), JOB)
    assert read.problem == "the image cannot be pulled"
    assert is_failing([read]) is failing


def test_the_commonest_problem_is_what_a_job_waits_for():
    told = [replica(0), replica(1, "ConfigError", "Mount point not found", "n1"), replica(2, "InProgress", "x")]
    told.append(replica(3, "ConfigError", "Mount point not found", "n2"))
    read = [read_replica(each, JOB) for each in told]
    assert waiting_of(read) == "its storage cannot be mounted (2 of 4 nodes): Mount point not found"
    assert waiting_of(read[:1]) == ""
    assert not out_of_memory(read)
    assert out_of_memory([read_replica(replica(0, "SystemError", "OOMKilled"), JOB)])


def test_an_event():
    told = {
        "type": "Warning", "reason": "FailedMount", "regarding": {"kind": "Pod", "name": "p"}, "count": 3,
        "last_observed_time": "2026-01-01T00:00:00.123456789Z",
    }  # fmt: skip
    event = read_event(told)
    assert (event.kind, event.reason, event.about, event.count) == ("Warning", "FailedMount", "Pod/p", 3)
    assert event.time == pytest.approx(1767225600.123, abs=0.001)
    assert read_event({}).time is None
