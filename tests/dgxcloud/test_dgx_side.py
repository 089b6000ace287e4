"""What run:ai and its cluster tell beside a job's own state may fail in every way: it never hides how the job is."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from dgx_project import Site, make_site, var, written
from labs.pods import needs_mounts
from labs.runai.server import RunaiLab
from runai_workloads import api_of, handle, payload, workload
from test_dgx_logs import END, ran
from waiting import until

from nemo_runspec.backends.cloud import connections, optional_requests
from nemo_runspec.backends.dgxcloud import api as api_module
from nemo_runspec.backends.dgxcloud import logs
from nemo_runspec.backends.dgxcloud.client import DgxCloudProvider
from nemo_runspec.backends.dgxcloud.status import Workloads
from nemo_runspec.backends.dgxcloud.submit import submit
from nemo_runspec.transport.web import NotKnown

KINDS = ("500", "403", "401", "404", "garbage", "halved", "reset")
"""How an endpoint fails for as long as it likes."""

SIDES = ("GET /workloads/*/history", "GET /workloads/*/pods", "GET /workloads/*/events")

FAILS = END.replace("exit_code=0", "exit_code=7") + "; exit 7"

SCRIPT = """\
import os, pathlib, sys, time
print("a line", flush=True)
while os.environ.get("GATE") and not pathlib.Path("/data", os.environ["GATE"]).exists():
    time.sleep(0.05)
sys.exit(int(os.environ.get("CODE", "0")))
"""


@pytest.fixture(autouse=True)
def short_of_patience(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(optional_requests, "SECONDS", 0.2)
    monkeypatch.setattr(api_module, "_KUBE_PATIENCE", 0.2)
    monkeypatch.setattr(api_module, "_KUBE_PAUSE", 0.0)
    monkeypatch.setattr("nemo_runspec.backends.dgxcloud.status.Workloads.pauses", (0.0, 0.1))
    monkeypatch.setattr("nemo_runspec.backends.cloud.renewal.PAUSES", (0.05, 0.05))
    connections.kept().clear()  # connections of other tests have been refused, or taken


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("phase", ["Pending", "Initializing", "Running", "Stopping", "Completed", "Failed", "Stopped"])
def test_the_state_is_the_jobs_own(runai_lab: RunaiLab, kind: str, phase: str):
    made = workload(runai_lab, "job-1", phase)
    job = handle(runai_lab, "job-1", id=made.id, project_id=runai_lab.mine.id)
    before = Workloads(api_of(runai_lab)).statuses([job])[0]
    for match in SIDES:
        runai_lab.fault(match, kind, times=None)
    [seen] = Workloads(api_of(runai_lab)).statuses([job])
    assert (seen.state, seen.facts.platform_state) == (before.state, phase)
    if kind not in ("404",):
        assert str(seen.facts.unanswered or "run:ai did not tell its ").startswith("run:ai did not tell its ")
    if phase in ("Completed", "Failed") and kind != "404":
        assert "history" in str(seen.facts.unanswered)
        assert "pods" in str(seen.facts.unanswered)


@needs_mounts
@pytest.mark.parametrize("kind", ["500", "403", "garbage"])
@pytest.mark.parametrize("fails", [False, True])
def test_an_exit_code_that_cannot_be_read_yet_is_not_known_yet(runai_lab: RunaiLab, kind: str, fails: bool):
    """The cluster's log is closed for a while: never fixed at 1, and a later look has it."""
    job = ran(runai_lab, FAILS if fails else END)
    provider = DgxCloudProvider()
    logs.new_chunks(api_of(runai_lab), job, {}, 1000)  # the cluster has let us in before
    faults = [runai_lab.kube.fault("*", kind, times=None), runai_lab.fault("GET /workloads/*/pods", kind, times=None)]
    faults.append(runai_lab.fault("GET /workloads/*/events", kind, times=None))
    [seen] = provider.status([job])
    assert (seen.state, seen.exit_code) == (("failed", None) if fails else ("succeeded", 0))
    assert seen.facts.unread
    for fault in faults:
        fault.times = 0
    [seen] = provider.status([job])
    assert (seen.exit_code, seen.facts.unread) == (7 if fails else 0, "")


@needs_mounts
@pytest.mark.parametrize("skew", [-7200.0, 7200.0])
def test_a_clock_of_its_own(runai_lab: RunaiLab, skew: float):
    """Two hours before ours or behind: the whole log of the pods, every line once, the exit code, times that fit."""
    runai_lab.skew = skew
    job = ran(runai_lab, f"for i in 1 2 3; do echo line $i; sleep 0.1; done; {FAILS}")
    offsets: dict[str, int] = {}
    text = b""
    for _ in range(3):
        for piece in logs.new_chunks(api_of(runai_lab), job, json.loads(json.dumps(offsets)), 1 << 20):
            offsets[piece.path], text = piece.cursor, text + piece.content
    assert [text.count(b"line %d" % i) for i in (1, 2, 3)] == [1] * 3
    [seen] = DgxCloudProvider().status([job])
    assert (seen.state, seen.exit_code) == ("failed", 7)
    assert seen.started is not None and seen.ended is not None
    assert 0 <= seen.ended - seen.started < 60
    assert abs(seen.ended - (time.time() + skew)) < 60


@pytest.mark.parametrize("skew", [-7200.0, 7200.0])
def test_a_job_whose_end_is_long_ago_by_its_own_clock_is_not_waited_for(
    runai_lab: RunaiLab, tmp_path: Path, skew: float
):
    """How long ago it ended is told by the platform's clock."""
    runai_lab.skew = skew
    slept: list[float] = []
    for ago, waits in ((600.0, False), (1.0, True)):
        made = workload(runai_lab, f"job-{ago:g}", "Failed", completed=time.time() - ago)
        job = handle(runai_lab, made.name, id=made.id, here=str(tmp_path / "jobs" / made.name))
        [seen] = Workloads(api_of(runai_lab)).statuses([job])
        seen = replace(seen, facts=replace(seen.facts, nodes="gpu-node-1"))  # where its pod, which is gone, has run
        slept.clear()
        [found] = Workloads(api_of(runai_lab)).with_ends([job], [seen], sleep=slept.append)
        assert (len(slept) > 1) == waits, slept
        assert bool(found.facts.unread) == waits


@pytest.mark.parametrize("kind", ["garbage", "halved", "says"])
@pytest.mark.parametrize("act", ["suspend", "delete"])
def test_a_change_that_a_gateway_answers_is_none(runai_lab: RunaiLab, kind: str, act: str):
    """Asked again, and not called done where nothing but pages comes; what is gone then was deleted by the first."""
    made = workload(runai_lab, "job-1", "Running")
    match = "POST */suspend" if act == "suspend" else "DELETE *"
    fault = runai_lab.fault(match, kind, times=None, body=b"<html>")
    with suppress(NotKnown):
        getattr(api_of(runai_lab), act)("trainings", made.id)
        assert (act, kind) == ("delete", "halved")
        assert made.deleted
    fault.times = 0
    runai_lab.fault(match, "garbage")
    if kind == "garbage":
        getattr(api_of(runai_lab), act)("trainings", made.id)
        assert made.phase in ("Stopped", "Deleting") or made.deleted


def test_a_submission_whose_answer_has_no_id_is_adopted(runai_lab: RunaiLab):
    runai_lab.scenario(None, "nocapacity")
    runai_lab.fault("POST /workloads/trainings", "changed", change=_without_id)
    found = submit(api_of(runai_lab), handle(runai_lab), payload(runai_lab, "job-1"), lambda _: None)
    assert found["id"] == runai_lab.workload("job-1").id
    assert len(runai_lab.jobs) == 1


def _without_id(answer: dict[str, object]) -> object:
    return {key: value for key, value in answer.items() if key != "workloadId"}


# From the outside


@pytest.fixture
def site(runai_lab: RunaiLab, project) -> Iterator[Site]:
    with make_site(runai_lab, project, SCRIPT) as found:
        yield found


@needs_mounts
def test_an_attached_run_ends_with_its_job_whatever_fails_beside_it(site: Site):
    for match, kind in zip(SIDES, ("500", "garbage", "403"), strict=True):
        site.lab.fault(match, kind, times=None)
    site.lab.kube.fault("*", "500", times=None)
    told = site.run(*var(CODE=7))
    [job] = site.lab.jobs
    assert job.phase == "Failed"
    assert told.code == 1, told.err
    assert "failed" in told.err and "exit code not known yet" in told.err
    assert "run:ai did not tell its " in told.err
    assert "Traceback" not in told.err
    for server in (site.lab, site.lab.kube):
        server.quiet_faults()
    [shown] = site.nemotron("jobs", "status", job.name, "--json").succeeds().json
    assert (shown["state"], shown["exit_code"]) == ("failed", 7)


@needs_mounts
@pytest.mark.parametrize("status", ["401", "403"])
def test_one_refusal_ends_no_attached_run(site: Site, status: str):
    """Of the control plane as of the cluster."""
    child = site.started(*var(GATE="go", CODE=3))
    [job] = until(lambda: site.lab.jobs, "the job")
    until(lambda: "a line" in written(job), "its words")
    for match in ("GET /workloads/*", *SIDES):
        site.lab.fault(match, status)
    site.lab.kube.fault("GET *", status)
    (site.lab.claims["data"] / "go").touch()
    told = site.end_of(child)
    assert told.code == 3, told.err
