"""Answers of Lepton in which anything may be anything: what comes out is an answer of ours or a `UserError`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import pytest
from cloud_plans import plan_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from labs.lepton.job import Attempt, Event, Job, Replica
from labs.lepton.lab import LeptonLab
from labs.lepton.life import Life
from labs.lepton.scenario import Issue, Scenario
from labs.odd import mutated
from lepton_jobs import api_of, body_of, handle_of, new_name

from nemo_runspec.backends.cloud.preflight import checks as cloud
from nemo_runspec.backends.lepton import listing, preflight
from nemo_runspec.backends.lepton.client import LeptonProvider
from nemo_runspec.backends.lepton.logs import last_lines, new_chunks
from nemo_runspec.backends.lepton.resolve import group_of, platform_facts
from nemo_runspec.backends.lepton.status import poll
from nemo_runspec.backends.lepton.submit import submit_once
from nemo_runspec.backends.listing import ListingRequest
from nemo_runspec.errors import UserError
from nemo_runspec.records.facts import JobFacts, to_table
from nemo_runspec.records.record import STATES
from nemo_runspec.records.status import JobStatus

EXAMPLES = int(os.environ.get("NEMOTRON_ODD_ANSWERS", "15"))
"""Answers per way in which Lepton is asked; a full run takes thousands."""

STATES_THERE = ("Queueing", "Starting", "Running", "Completed", "Failed", "Stopped", "Archived")
LINES = (b"line", b"nemotron-end: node=0 attempt=0 exit_code=7 phase=command lines=1 node_name=n reason=")
ENV = {
    "container_image": "ubuntu:24.04", "nemo_run_dir": "/mnt/lustre/run", "node_group": "h100-pool", "gpus_per_node": 8,
    "node_reservation": "res-7h3k", "can_preempt": True,
}  # fmt: skip


class _Pod:
    """What a replica has written, of one that is over."""

    state, exit_code, ended, oom_killed = "exited", 7, 1.0, False

    def __init__(self, started: float) -> None:
        self.started = started
        self.log = [(int((started + n) * 1e9), line) for n, line in enumerate(LINES)]
        self.text = b"\n".join(LINES).decode()


@pytest.fixture
def lab(lepton_lab: LeptonLab, monkeypatch: pytest.MonkeyPatch) -> Iterator[LeptonLab]:
    """With no patience on our side."""
    for name in ("status.Jobs.pauses", "submit._DOUBTS"):
        monkeypatch.setattr(f"nemo_runspec.backends.lepton.{name}", (0.0,))
    monkeypatch.setattr("nemo_runspec.backends.cloud.renewal.PAUSES", ())
    monkeypatch.setattr("nemo_runspec.backends.cloud.preflight.checks.PATIENCE", 0.1)
    monkeypatch.setattr("nemo_runspec.transport.registry._ask", lambda *_: pytest.fail("nobody asks a registry here"))
    for name, value in lepton_lab.environment().items():
        monkeypatch.setenv(name, value)
    yield lepton_lab
    lepton_lab.lives.clear()
    lepton_lab.strays.clear()  # ids that were made odd lead to paths that there are not


def put(lab: LeptonLab, state: str) -> dict[str, object]:
    """The handle of a job with a pod, an event and a log, whose life nobody leads."""
    name = new_name()
    job = Job(f"{name}-abcd", name, body_of(name), state=state)
    attempt = Attempt(job.id, 0, Scenario())
    replica = Replica(f"{job.id}-0-abcde", 0, "h100-node-0", "ng-h100-4f2a", issue=Issue("InProgress", "Pulling image"))
    replica.pod = _Pod(job.created)  # type: ignore[assignment]
    attempt.replicas = [replica]
    job.attempts.append(attempt)
    job.events.append(Event("Warning", "Started", "a message", replica.id))
    job.analysis = {"err_class": "ERR_PROGRAM", "suggestion": "see", "job_failure_by_node_event": [{"message": "m"}]}
    job.ended = job.created + 3 if state in ("Completed", "Failed", "Archived") else None
    lab.lives[:] = [Life(lab, job)]
    return handle_of(lab, name, id=job.id, nodes=1, since=job.created)


def looked(lab: LeptonLab, handle: dict[str, object]) -> None:
    api = api_of(lab, patience=0.1)
    for handles in ([handle], [handle] * 6, [{**handle, "id": ""}], [{**handle, "nodes": 3, "doubt": True}]):
        for seen in poll(api, handles):
            check(seen)
            LeptonProvider().collect([handle], [seen])


def check(seen: JobStatus) -> None:
    """That it can be written down and shown."""
    assert seen.state in STATES
    assert seen.exit_code is None or type(seen.exit_code) is int
    for when in (seen.started, seen.ended):
        assert when is None or 0 < when < 253_402_300_800
    json.dumps(to_table(seen.facts), allow_nan=False).encode()
    f"{seen.reason}{seen.facts}".encode()


def told(lab: LeptonLab, handle: dict[str, object]) -> None:
    provider, api = LeptonProvider(), api_of(lab, patience=0.1)
    for job in (handle, {**handle, "nodes": 2}):
        offsets: dict[str, int] = {}
        for _ in range(3):
            for piece in new_chunks(api, job, offsets, 1 << 16):
                offsets[piece.path] = piece.cursor
        last_lines(api, job, 10)
        json.dumps(offsets)
    provider.read_log(handle, {}, 1 << 16, platform=True)
    f"{provider.replicas(handle)}{provider.events(handle)}".encode()
    provider.diagnose(handle, JobStatus("failed", facts=JobFacts(id=handle["id"])))
    provider.diagnose(handle, JobStatus("starting"))


def listed(lab: LeptonLab, handle: dict[str, object]) -> None:
    for each in listing.LISTINGS.lists:
        asked = ListingRequest(api_of(lab, patience=0.1), {}, "lustre" if each.argument else "")
        try:
            json.dumps([row for row in each.rows(asked)])
        except UserError:
            continue


def examined(lab: LeptonLab, handle: dict[str, object]) -> None:
    api = api_of(lab, patience=0.1)
    for more in ({}, {"resource_shape": "gpu.8xh100-sxm"}, {"mounts": [{"path": "/", "mount_path": "/mnt/lustre"}]}):
        plan = plan_of("lepton", {**ENV, **more})
        try:
            group = group_of(api, plan.target)
            platform_facts(api, plan, {}, group)
            preflight.fast_checks(api, plan, group)
        except UserError:
            pass
        wanted = preflight.LeptonRequest(api, plan.target, 2, 8)
        for found in cloud.run_checks(preflight._CHECKS, wanted):
            f"{found.seen}{found.remedy}".encode()
        list(preflight._reached(wanted))


def submitted(lab: LeptonLab, handle: dict[str, object]) -> None:
    name = new_name()
    job = handle_of(lab, name)
    found = submit_once(api_of(lab, patience=0.1), job, body_of(name), lambda line: None)
    assert isinstance(found["id"], str) and found["id"]
    json.dumps(found, allow_nan=False)


@pytest.mark.slow
@pytest.mark.parametrize("ask", [looked, told, listed, examined, submitted])
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), state=st.sampled_from(STATES_THERE))
def test_odd_answers(lab: LeptonLab, ask: Callable[[LeptonLab, dict[str, object]], None], seed: int, state: str):
    handle = put(lab, state)
    lab.quiet_faults()
    lab.fault("*", "changed", times=None, change=partial(mutated, random=Random(seed)))
    try:
        ask(lab, handle)
    except UserError as error:
        assert str(error).strip()
    finally:
        lab.quiet_faults()
        lab._faults.clear()
        for life in lab.lives:
            life.ask("delete")
