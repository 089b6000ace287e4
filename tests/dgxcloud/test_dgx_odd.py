"""Answers of run:ai in which anything may be anything: what comes out is an answer of ours or a `UserError`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import pytest
from cloud_plans import plan_of
from hypothesis import given, settings
from hypothesis import strategies as st
from labs.odd import mutated
from labs.runai.model import LabPod, Workload
from labs.runai.server import RunaiLab
from runai_workloads import handle, payload, workload

from nemo_runspec.backends.cloud.preflight.checks import run_checks
from nemo_runspec.backends.dgxcloud import api as api_module
from nemo_runspec.backends.dgxcloud import listing, logs, preflight
from nemo_runspec.backends.dgxcloud.api import RunaiApi, connect
from nemo_runspec.backends.dgxcloud.client import DgxCloudProvider
from nemo_runspec.backends.dgxcloud.logs import kube
from nemo_runspec.backends.dgxcloud.prepare import asked
from nemo_runspec.backends.dgxcloud.submit import submit
from nemo_runspec.backends.listing import ListingRequest
from nemo_runspec.backends.provider import JobRef
from nemo_runspec.errors import UserError
from nemo_runspec.records.facts import JobFacts, to_table
from nemo_runspec.records.record import STATES
from nemo_runspec.records.status import JobStatus

EXAMPLES = int(os.environ.get("NEMOTRON_ODD_ANSWERS", "15"))
"""Answers per way in which run:ai is asked; a full run takes thousands."""

PHASES = ("Pending", "Initializing", "Running", "Stopping", "Completed", "Failed", "Stopped")


@pytest.fixture
def lab(runai_lab: RunaiLab, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunaiLab]:
    """With no patience on our side."""
    monkeypatch.setattr(api_module, "PATIENCE", 0.1)
    monkeypatch.setattr(api_module, "AT_ONCE", 0.1)
    monkeypatch.setattr(api_module, "_KUBE_PATIENCE", 0.1)
    monkeypatch.setattr("nemo_runspec.backends.cloud.renewal.PAUSES", ())
    monkeypatch.setattr("nemo_runspec.backends.dgxcloud.status.Workloads.pauses", (0.0,))
    monkeypatch.setattr("nemo_runspec.backends.dgxcloud.submit._PAUSES", ())
    monkeypatch.setenv("RUNAI_CLIENT_SECRET", runai_lab.client_secret)
    yield runai_lab
    runai_lab.strays.clear()  # ids that were made odd lead to paths that there are not
    runai_lab.kube.strays.clear()


def put(lab: RunaiLab, phase: str) -> dict[str, object]:
    """The handle of a workload with a pod, events and a history, whose life nobody leads."""
    made: Workload = workload(lab, f"job-{len(lab.workloads)}", phase)
    pod = LabPod(f"{made.name}-0-0", "", 0, made.name, "lab/any", node="gpu-node-1")
    made.pods = [pod]
    made.enter(phase, "a message")
    made.tell("Pulling", "Pulling image", pod)
    made.tell("Failed", "Error: ErrImagePull, exit code: 7", pod, kind="Warning")
    return handle(lab, made.name, id=made.id, project_id=lab.mine.id)


def api_of(job: dict[str, object]) -> RunaiApi:
    return connect(job, patience=0.1)


def looked(lab: RunaiLab, job: dict[str, object]) -> None:
    provider = DgxCloudProvider()
    for handles in ([JobRef(job)], [JobRef(job)] * 4, [JobRef({**job, "id": ""})], [JobRef(job, "me")]):
        for seen in provider.status(handles):
            check(seen)
            provider.collect([job], [seen])


def check(seen: JobStatus) -> None:
    """That it can be written down and shown."""
    assert seen.state in STATES
    assert seen.exit_code is None or type(seen.exit_code) is int
    for when in (seen.started, seen.ended):
        assert when is None or 0 < when < 253_402_300_800
    json.dumps(to_table(seen.facts), allow_nan=False).encode()
    f"{seen.reason}{seen.facts}".encode()


def told(lab: RunaiLab, job: dict[str, object]) -> None:
    provider = DgxCloudProvider()
    offsets: dict[str, int] = {}
    for _ in range(2):
        for piece in logs.new_chunks(api_of(job), job, offsets, 1 << 16):
            offsets[piece.path] = piece.cursor
    json.dumps(offsets)
    kube.last_lines(api_of(job), job)
    provider.read_log(job, {}, 1 << 16, platform=True)
    f"{provider.replicas(job)}{provider.events(job)}".encode()
    provider.diagnose(job, JobStatus("failed", facts=JobFacts(id=job["id"])))
    provider.diagnose(job, JobStatus("starting"))


def listed(lab: RunaiLab, job: dict[str, object]) -> None:
    for each in listing.LISTINGS.lists:
        for env in ({}, {"project_name": lab.project}):
            try:
                json.dumps([row for row in each.rows(ListingRequest(api_of(job), env))])
            except UserError:
                continue


def examined(lab: RunaiLab, job: dict[str, object]) -> None:
    env = {
        "container_image": "lab/any", "base_url": lab.base_url, "client_id": lab.client_id, "gpus_per_node": 2,
        "project_name": lab.project, "pvcs": [{"claimName": "data", "path": "/data"}],
        "pvc_nemo_run_dir": "/data/nemo_run", "kube_apiserver_url": lab.kube_url, "secret_vars": {"X": "hub/X"},
    }  # fmt: skip
    plan, api = plan_of("dgxcloud", env), api_of(job)
    api._projects.clear()
    try:
        facts, more = asked(api, plan, lambda line: None)
        json.dumps([list(facts.values()), more], allow_nan=False)
        assert more["project_id"] and more["cluster_id"]
    except UserError:
        pass
    wanted = preflight.DgxCloudRequest(api, plan.target, 2, 8)
    for found in (*preflight._reached(wanted, "here"), *run_checks(preflight._CHECKS, wanted)):
        f"{found.seen}{found.remedy}".encode()
    preflight.fast_checks(api, plan)


def submitted(lab: RunaiLab, job: dict[str, object]) -> None:
    name = f"new-{len(lab.workloads)}"
    lab.scenario(name, "nocapacity")
    found = submit(api_of(job), {**job, "name": name, "id": ""}, payload(lab, name), lambda _: None)
    assert isinstance(found["id"], str) and found["id"]
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("ask", [looked, told, listed, examined, submitted])
@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=st.integers(0, 2**32), phase=st.sampled_from(PHASES))
def test_odd_answers(lab: RunaiLab, ask: Callable[[RunaiLab, dict[str, object]], None], seed: int, phase: str):
    job = put(lab, phase)
    random = Random(seed)
    for server in (lab, lab.kube):
        server._faults.clear()
        server.fault("*", "changed", times=None, change=partial(mutated, random=random))
    try:
        ask(lab, job)
    except UserError as error:
        assert str(error).strip()
    finally:
        for server in (lab, lab.kube):
            server._faults.clear()
