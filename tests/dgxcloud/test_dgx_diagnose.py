"""Every way in which the lab's workloads go wrong, really run: the right kind, the line that shows it, exit codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from cloud_projects import GAVE_UP, LARGE, POD, RAISES, READY
from labs.pods import needs_mounts
from labs.runai.server import RunaiLab
from waiting import LONG, until

from nemo_runspec.backends.dgxcloud.api import RunaiApi, connect
from nemo_runspec.backends.dgxcloud.client import DgxCloudProvider
from nemo_runspec.backends.dgxcloud.diagnose import diagnose, pod_messages
from nemo_runspec.backends.provider import Handle
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.records.record import is_over
from nemo_runspec.records.status import JobStatus

STOPPED = {**READY, "grace": LONG}
"""Strikes then too; it is told to end, and has the time for its last words."""

FAILURES: dict[str, tuple[str, dict[str, Any], str, str, str, int | None]] = {
    "raises": ("", {}, RAISES, "user code", "ValueError: a shape is wrong", 1),
    "gave-up": ("", {}, GAVE_UP, "user code", "error: data_dir /nowhere holds no whole dataset", 1),
    "exits": ("", {}, "echo last words; exit 7", "user code", "last words", 7),
    "quick": ("quickfail", {"script": "echo No such file: foo.py >&2; exit 1"}, "true", "user code", "", 1),
    "lines-lost": ("truncated_log", {"lost_end": 1}, RAISES, "user code", "ValueError", 1),
    "killed": ("oom", {**READY, "whole": True}, "sleep 60", "out of memory", "", 137),
    "kernel": ("oom", {**READY, "whole": False}, LARGE, "out of memory", "", None),
    "evicted": ("evicted", STOPPED, "sleep 60", "eviction", "Evicted", 143),
    "preempted": (
        "evicted",
        {**STOPPED, "reason": "Preempted", "message": "by team-02"},
        "sleep 60",
        "eviction",
        "Preempted",
        143,
    ),
    "node-lost": ("badnode", {**READY, "lost": True}, "sleep 60", "node", "", None),
}
"""Name → scenario, its settings, the pod's command; kind, evidence, exit code."""

WITHOUT_LOGS = {"exits": "user code", "killed": "out of memory", "evicted": "eviction", "node-lost": "node"}
"""The same where no way leads to the log: what the platform alone says."""

WAITS: dict[str, tuple[str, str, str, str]] = {
    "no-room": ("nocapacity", "capacity", "Insufficient nvidia.com/gpu", "queue"),
    "no-image": ("imagepull", "image", "401 Unauthorized", "pull"),
    "bad-node": ("badnode", "node", "mount point not found", "start"),
}
"""Name → scenario; kind and evidence; which of the deadlines runs."""

Submit = Callable[..., Handle]


@pytest.fixture
def submit(runai_lab: RunaiLab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Submit]:
    """`submit("name", "command", kube=True)`: a workload without our own files; its handle."""
    monkeypatch.setenv("RUNAI_CLIENT_SECRET", runai_lab.client_secret)
    monkeypatch.setattr("nemo_runspec.backends.dgxcloud.status.Workloads.pauses", (0.0, 0.3))
    runai_lab.timing.grace = 1.0

    def send(name: str, command: str = "sleep 60", *, kube: bool = True, nodes: int = 1) -> Handle:
        handle = {"base_url": runai_lab.base_url, "client_id": runai_lab.client_id, "project": runai_lab.project}
        kind = "trainings" if nodes == 1 else "distributed"
        handle |= {"name": name, "kind": kind, "nodes": nodes, "kube": runai_lab.kube_url if kube else ""}
        api = connect(handle)
        project = api.project(runai_lab.project)
        variables = [{"name": "SCRIPT", "value": POD.format(command=command)}]
        spec = {"command": "/bin/bash", "args": "-c 'eval \"$SCRIPT\"'", "image": "ubuntu:24.04", "backoffLimit": 0}
        body = {"name": name, "projectId": project["id"], "clusterId": project["clusterId"]}
        more = {"environmentVariables": variables, "restartPolicy": "Never"}
        if nodes > 1:
            more |= {"distributedFramework": "PyTorch", "numWorkers": nodes - 1}
            body |= {"masterSpecSameAsWorker": True}
            del spec["backoffLimit"]
        made = api.create(kind, {**body, "spec": {**spec, **more}})
        return {**handle, "id": made["workloadId"], "project_id": project["id"]}

    yield send


def api_of(handle: Handle) -> RunaiApi:
    return connect(handle)


def once(handle: Handle, holds: Callable[[JobStatus], object]) -> JobStatus:
    """How a job is as soon as that holds."""
    return until(lambda: DgxCloudProvider().status([handle])[0], f"{handle['name']} as it should be", holds)


def evidence_of(handle: Handle, seen: JobStatus) -> str:
    """What shows why a job does not start, '' as long as nothing does."""
    found = DgxCloudProvider().diagnose(handle, seen)
    return found.evidence if found else ""


def over(seen: JobStatus) -> bool:
    return is_over(seen.state)


@needs_mounts
def test_workloads_that_fail(submit: Submit, runai_lab: RunaiLab):
    """All of them at once: each is told apart, and nothing of any runs on."""
    handles = {}
    for name, (kind, settings, command, *_) in FAILURES.items():
        if kind:
            runai_lab.scenario(name, kind, **settings)
        handles[name] = submit(name, command)
    said: dict[str, tuple[Diagnosis, JobStatus]] = {}
    for name, handle in handles.items():
        seen = once(handle, over)
        found = DgxCloudProvider().diagnose(handle, seen)
        assert found is not None, name
        said[name] = (found, seen)
    assert {name: found.kind for name, (found, _) in said.items()} == {name: row[3] for name, row in FAILURES.items()}
    for name, (found, seen) in said.items():
        *_, evidence, exit_code = FAILURES[name]
        assert evidence in found.evidence, (name, found)
        assert found.what, name
        assert found.remedy, name
        assert exit_code in (None, seen.exit_code), (name, seen)
    assert "gpu-node-" in said["node-lost"][0].what  # so that it can be avoided
    assert not [pod for pod in runai_lab.pods.running if pod.name]


@needs_mounts
def test_workloads_that_fail_and_have_no_log(submit: Submit, runai_lab: RunaiLab):
    handles = {}
    for name in WITHOUT_LOGS:
        kind, settings, command, *_ = FAILURES[name]
        if kind:
            runai_lab.scenario(name, kind, **settings)
        handles[name] = submit(name, command, kube=False)
    said = {name: DgxCloudProvider().diagnose(handle, once(handle, over)) for name, handle in handles.items()}
    assert {name: found.kind for name, found in said.items() if found} == {**WITHOUT_LOGS, "exits": ""}
    guessed = said["exits"]
    assert guessed is not None
    assert "its exit code is not known from here" in guessed.what
    assert all(way in guessed.remedy for way in ("kube_apiserver_url", "run_dir_here", "S3"))


@needs_mounts
def test_a_failure_is_looked_into_once(submit: Submit, runai_lab: RunaiLab):
    """How it ended and why it did is read from the same answers: a pod that said nothing, in the cluster's words."""
    runai_lab.scenario("quick", "quickfail", script="exit 7")
    handle = submit("quick", "true")
    once(handle, over)
    runai_lab.calls.clear()
    runai_lab.kube.calls.clear()
    (seen,) = DgxCloudProvider().status([handle])
    found = DgxCloudProvider().diagnose(handle, seen)
    assert (seen.exit_code, found and found.kind) == (7, "user code")
    assert len(runai_lab.calls_of("GET /workloads/*/events")) == 1
    assert len(runai_lab.kube.calls_of("GET /api/v1/namespaces/*/pods")) == 1


@needs_mounts
def test_a_workload_that_succeeds_or_was_stopped_has_no_verdict(submit: Submit):
    good, stopped = submit("good", "true"), submit("stopped")
    once(stopped, lambda seen: seen.state == "running")
    DgxCloudProvider().stop([stopped], "user")
    for handle, state in ((good, "succeeded"), (stopped, "cancelled")):
        seen = once(handle, over)
        assert seen.state == state
        assert DgxCloudProvider().diagnose(handle, seen) is None


def test_workloads_that_do_not_start(submit: Submit, runai_lab: RunaiLab):
    """What keeps them is known while they wait; and nothing is left of them once they are stopped."""
    for name, (scenario, kind, evidence, phase) in WAITS.items():
        runai_lab.scenario(name, scenario)
        handle = submit(name)
        once(handle, lambda seen, handle=handle, evidence=evidence: evidence in evidence_of(handle, seen))
        seen = once(handle, lambda seen, phase=phase: seen.facts.phase == phase)
        assert (seen.state, seen.facts.failing) == (
            "queued" if phase == "queue" else "starting",
            phase == "pull",
        )
        found = DgxCloudProvider().diagnose(handle, seen)
        assert found is not None, name
        assert found.kind == kind, name
        assert evidence in found.evidence, (name, found)
        late = replace(seen, facts=replace(seen.facts, overdue=f"for longer than {phase}_timeout (1 s)"))
        told = DgxCloudProvider().diagnose(handle, late)
        assert told is not None, name
        assert told.kind == kind, name
        assert f"{phase}_timeout" in told.what, name
        DgxCloudProvider().stop([handle], "user")
        once(handle, lambda seen: seen.state == "cancelled")


NO_NAME = 'failed to do request: Head "https://nvcr.io/v2/x": dial tcp: lookup nvcr.io on 10.96.0.10:53: no such host'


@pytest.mark.parametrize("kube", [True, False])
@pytest.mark.parametrize(("message", "kind"), [(None, "image"), (NO_NAME, "node")])
def test_a_pull_that_failed(submit: Submit, runai_lab: RunaiLab, kube: bool, message: str | None, kind: str):
    """It is told why, and that it will fail again, though the kubelet's word for it is older than the rest."""
    runai_lab.scenario("pull", "imagepull", **({"message": message} if message else {}))
    handle = submit("pull", kube=kube)
    why = message or "401 Unauthorized"
    once(handle, lambda seen: why in evidence_of(handle, seen))
    seen = once(handle, lambda seen: seen.facts.failing)
    found = DgxCloudProvider().diagnose(handle, seen)
    assert found is not None
    assert (found.kind, seen.facts.phase) == (kind, "pull")
    assert why in str(seen.facts.waiting)
    [replica] = DgxCloudProvider().replicas(handle)
    assert why in replica.message


@needs_mounts
def test_one_of_two_nodes_does_not_run(submit: Submit, runai_lab: RunaiLab):
    """Degraded, it has not started; of one that had, it is told what is wrong with it."""
    runai_lab.scenario("half", "degraded", lame=1)
    handle = submit("half", nodes=2)
    seen = once(handle, lambda seen: seen.facts.platform_state == "Degraded" and seen.facts.failing)
    assert (seen.state, seen.facts.replicas, seen.facts.begun) == ("starting", "1 of 2 ready", True)
    for state in ("starting", "running"):
        found = DgxCloudProvider().diagnose(handle, replace(seen, state=state))
        assert found is not None
        assert found.kind == "image"
        assert "401 Unauthorized" in found.evidence
    DgxCloudProvider().stop([handle], "user")
    once(handle, lambda seen: seen.state == "cancelled")


@needs_mounts
def test_one_that_is_degraded_and_whole_runs(submit: Submit, runai_lab: RunaiLab):
    runai_lab.scenario("whole", "degraded")
    handle = submit("whole")
    seen = once(handle, lambda seen: seen.facts.platform_state == "Degraded" and seen.state == "running")
    assert "degraded" in seen.reason
    DgxCloudProvider().stop([handle], "user")


@needs_mounts
def test_answers_that_are_missing(submit: Submit, runai_lab: RunaiLab):
    """404, no permission, no JSON: the verdict is of what is left, and says what was not answered."""
    handle = submit("exits", "exit 7")
    seen = once(handle, over)
    log = b"nemotron-end: node=0 exit_code=7 phase=command reason=\n"
    for match, kind in (("pods", "403"), ("events", "garbage")):
        runai_lab.fault(f"GET /workloads/*/{match}", kind)
    found = diagnose(api_of(handle), handle, seen, log)
    assert found is not None
    assert (found.kind, "exit code 7" in found.what) == ("user code", True)
    for match in ("pods", "events"):
        runai_lab.fault(f"GET /workloads/*/{match}", "404")
    nothing = diagnose(api_of(handle), handle, replace(seen, reason="run:ai calls it failed"), b"")
    assert nothing is not None
    assert "run:ai did not answer about its pods, events" in nothing.what


def test_words_of_kubernetes():
    """The states of containers, and conditions that hold or do not."""
    waiting = {"state": {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "hf" not found'}}}
    killed = {"lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}, "state": {"running": {}}}
    fine = {"state": {"terminated": {"reason": "Completed", "exitCode": 0}}}
    conditions = [
        {"type": "Ready", "status": "True", "reason": "Good"},
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/8 nodes are available"},
        {"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"},
    ]
    status = {"containerStatuses": [waiting, killed, fine], "conditions": conditions, "reason": "Evicted"}
    words = [word.text for word in pod_messages([{"spec": {"nodeName": "n1"}, "status": status}], now=True)]
    assert words == [
        "Evicted",
        "PodScheduled: Unschedulable: 0/8 nodes are available",
        'CreateContainerConfigError: secret "hf" not found',
        "OOMKilled (exit code 137)",
    ]
