"""Every way in which the lab's jobs go wrong, really run: the right kind, the line that shows it, the exit code."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from cloud_projects import GAVE_UP, LARGE, POD, RAISES, READY
from labs.lepton.lab import LeptonLab
from labs.lepton.scenario import Timings
from labs.pods import needs_mounts
from waiting import LONG, until

from nemo_runspec.backends.cloud.diagnose import event_messages
from nemo_runspec.backends.lepton import status as looking
from nemo_runspec.backends.lepton.api import LeptonApi, connect, id_of
from nemo_runspec.backends.lepton.diagnose import analysis_of, diagnose, replica_messages
from nemo_runspec.backends.lepton.logs import last_lines
from nemo_runspec.backends.lepton.replicas import read_event
from nemo_runspec.backends.provider import Handle
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.records.record import is_over
from nemo_runspec.records.status import JobStatus

OUT_OF_GPU = "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB' >&2; exit 1"
UNSTARTED = "nemotron-end: node=0 exit_code=1 phase=start reason=code: https://s3/x cannot be fetched: HTTP 403"
BROKEN_UPLOAD = "nemotron-end: node=0 exit_code=1 phase=command reason=outputs: /out: 1 of 2 files: HTTP 500"

FAILURES: dict[str, tuple[str, dict[str, Any], str, str, str, int | None]] = {
    "raises": ("", {}, RAISES, "user code", "ValueError: a shape is wrong", 1),
    "gave-up": ("", {}, GAVE_UP, "user code", "error: data_dir /nowhere holds no whole dataset", 1),
    "exits": ("", {}, "echo last words; exit 7", "user code", "last words", 7),
    "quick": ("quickfail", {}, "true", "user code", "cannot import name", None),
    "archived": ("archived_fail", {}, RAISES, "user code", "ValueError", 1),
    "lines-lost": ("truncated_log", {"drop_every": 0, "drop_text": "nemotron-end"}, RAISES, "user code", "Value", None),
    "kernel": ("oom", READY, LARGE, "out of memory", "OOM encountered", None),
    "all-killed": ("oom", {**READY, "whole": True}, "sleep 600", "out of memory", "OOM encountered", 137),
    "gpu-memory": ("", {}, OUT_OF_GPU, "out of memory", "CUDA out of memory", 1),
    "evicted": ("evicted", {**READY, "grace": LONG}, "sleep 600", "eviction", "reempted", 143),
    "node-lost": ("nodefail", READY, "sleep 600", "node", "XID 79", 1),
    "not-fetched": ("", {}, f"echo '{UNSTARTED}'; exit 1", "credentials", "HTTP 403", 1),
    "not-uploaded": ("", {}, f"echo '{BROKEN_UPLOAD}'; exit 1", "storage", "HTTP 500", 1),
    "archived-silent": ("archived_silent", {}, "true", "", "", None),
}
"""Name → scenario, its settings, the pod's command; kind, evidence, exit code."""

WAITS: dict[str, tuple[str, str, str]] = {
    "no-room": ("nocapacity", "capacity", "Insufficient nvidia.com/gpu"),
    "no-image": ("imagepull", "image", "not found"),
    "denied": ("imagepull_denied", "image", "401 Unauthorized"),
    "bad-node": ("badnode", "node", "Mount point not found"),
    "pulling": ("stuck_pull", "", ""),
    "creating": ("stuck_start", "", ""),
}
"""Name → scenario; kind and evidence."""


@pytest.fixture
def api(lepton_lab: LeptonLab, monkeypatch: pytest.MonkeyPatch) -> Iterator[LeptonApi]:
    for name, value in lepton_lab.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(looking.Jobs, "pauses", (0.0, 0.3))
    lepton_lab.timings = Timings(grace=LONG)  # pods end before it, and say so
    yield connect(patience=1.0)


def submit(api: LeptonApi, name: str, command: str = "sleep 600") -> Handle:
    script = command if "nemotron-end" in command else POD.format(command=command)
    container = {"image": "ubuntu:24.04", "command": ["/bin/bash", "-c", script]}
    spec = {"resource_shape": "gpu.1xh100-sxm", "container": container, "log": {"enable_collection": True}}
    job = api.create({"metadata": {"id": name, "name": name}, "spec": spec})
    return {"name": name, "id": id_of(job), "nodes": 1, "since": time.time() - 5}


def seen_as(api: LeptonApi, handle: Handle, holds: Callable[[JobStatus], object]) -> JobStatus:
    """How a job is as soon as that holds."""
    return until(lambda: looking.poll(api, [handle])[0], str(handle["name"]), holds)


def verdict(api: LeptonApi, handle: Handle, seen: JobStatus) -> Diagnosis | None:
    log = seen.detail.log if seen.detail is not None else None
    return diagnose(api, handle, seen, last_lines(api, handle, 200) if log is None else log)


@needs_mounts
def test_jobs_that_fail(api: LeptonApi, lepton_lab: LeptonLab):
    """All of them at once: each is told apart, and nothing of any runs on."""
    handles = {}
    for name, (kind, settings, command, *_) in FAILURES.items():
        if kind:
            lepton_lab.scenario(name, kind, **settings)
        handles[name] = submit(api, name, command)
    said = {}
    for name, handle in handles.items():
        seen = seen_as(api, handle, lambda seen: is_over(seen.state))
        found = verdict(api, handle, seen)
        assert found is not None, name
        said[name] = (found, seen)
    assert {name: found.kind for name, (found, _) in said.items()} == {name: row[3] for name, row in FAILURES.items()}
    for name, (found, seen) in said.items():
        *_, evidence, exit_code = FAILURES[name]
        assert evidence in found.evidence, (name, found)
        assert found.what, name
        assert found.remedy, name
        assert exit_code in (None, seen.exit_code), (name, seen)
    assert "h100-node" in said["node-lost"][0].what  # so that it can be avoided
    assert lepton_lab.running == []


@needs_mounts
def test_a_failure_that_no_node_knows_of(api: LeptonApi, lepton_lab: LeptonLab):
    """The platform and the job's own last words contradict each other: that is said, and nobody is blamed."""
    lepton_lab.scenario("good", "archived_fail")
    handle = submit(api, "good", "echo 'nemotron-end: node=0 exit_code=0 phase=command reason='")
    seen = seen_as(api, handle, lambda seen: is_over(seen.state))
    found = verdict(api, handle, seen)
    assert found is not None
    assert (seen.state, seen.exit_code, found.kind) == ("failed", 1, "")
    for text in (seen.reason, found.what):
        assert "Lepton says that it failed" in text
        assert "exit code 0" in text
    assert found.evidence.startswith("Lepton: ")


@needs_mounts
def test_a_gpu_that_is_full_by_leptons_word(api: LeptonApi, lepton_lab: LeptonLab):
    """Nobody was killed: the exit code is not that of a killed process, and the kernel is not blamed."""
    lepton_lab.scenario("full", "gpu_oom", **READY)
    handle = submit(api, "full", "sleep 600")
    seen = seen_as(api, handle, lambda seen: is_over(seen.state))
    found = verdict(api, handle, seen)
    assert found is not None
    assert (found.kind, "kernel" in found.what, "GPU memory" in found.what) == ("out of memory", False, True)
    assert found.platform["suggestion"] == "CUDA out of memory: reduce the batch size"
    assert seen.exit_code != 137


@needs_mounts
def test_a_job_that_succeeds_or_was_stopped_has_no_verdict(api: LeptonApi, lepton_lab: LeptonLab):
    lepton_lab.scenario("good", "archived_ok")
    good, stopped = submit(api, "good", "true"), submit(api, "stopped")
    seen_as(api, stopped, lambda seen: seen.state == "running")
    api.stop(str(stopped["id"]))
    for handle, state in ((good, "succeeded"), (stopped, "cancelled")):
        seen = seen_as(api, handle, lambda seen: is_over(seen.state))
        assert seen.state == state
        assert verdict(api, handle, seen) is None


def test_jobs_that_do_not_start(api: LeptonApi, lepton_lab: LeptonLab):
    """What keeps them is known while they wait; one that is only slow is told so when its time is up."""
    handles = {}
    for name, (scenario, *_) in WAITS.items():
        lepton_lab.scenario(name, scenario)
        handles[name] = submit(api, name)
    for name, handle in handles.items():
        _, kind, evidence = WAITS[name]
        phase = {"no-room": "queue", "pulling": "pull"}.get(name)
        seen = seen_as(api, handle, lambda seen, phase=phase: _stuck(seen, phase))
        assert bool(seen.facts.failing) == (kind == "image"), name
        found = verdict(api, handle, seen)
        assert (found.kind if found else "") == kind, name
        assert found is None or evidence in found.evidence, name
        late = verdict(
            api, handle, replace(seen, facts=replace(seen.facts, overdue=f"for longer than {_key(seen)} (1 s)"))
        )
        assert late is not None, name
        assert late.kind == (kind or {"pulling": "image"}.get(name, "")), name
        assert _key(seen) in late.what, name
        api.stop(str(handle["id"]))
        seen_as(api, handle, lambda seen: seen.state == "cancelled")
    assert lepton_lab.running == []


def _stuck(seen: JobStatus, phase: str | None) -> bool:
    waits = seen.state in ("queued", "starting") and bool(seen.facts.waiting)
    if phase is None:
        return waits and seen.state == "starting" and "pulling" not in str(seen.facts.waiting)
    return waits and seen.facts.phase == phase


def _key(seen: JobStatus) -> str:
    return f"{seen.facts.phase}_timeout"


@needs_mounts
def test_answers_that_are_missing(api: LeptonApi, lepton_lab: LeptonLab):
    """404, 500, no permission, no JSON: the verdict is of what is left, and says what was not answered."""
    handle = submit(api, "raises", RAISES)
    seen = seen_as(api, handle, lambda seen: is_over(seen.state))
    log = seen.detail.log
    for match, kind in (("replicas", "404"), ("events", "403"), ("failure-analysis", "garbage")):
        lepton_lab.fault(f"GET /jobs/*/{match}", kind)
    found = diagnose(api, handle, seen, log)
    assert found is not None
    assert found.kind == "user code"
    lepton_lab.fault("GET /jobs/*", "500", times=None)
    assert diagnose(api, handle, seen, log) == found
    before = len(lepton_lab.calls)
    nothing = diagnose(api, handle, JobStatus("failed", "Lepton says that it failed"), b"")
    assert nothing is not None
    assert "did not answer about its replicas, events, failure analysis" in nothing.what
    assert {call.path.rpartition("/")[2] for call in lepton_lab.calls[before:]} == {"replicas"}  # one was enough


def test_answers_of_another_shape():
    """Nothing of this is promised: a word may stand alone, in a list, or not at all."""
    issue = {"reason": "NoCapacity", "message": "none"}
    replicas = [{"status": {"readiness_issue": each}} for each in (issue, [issue, {"reason": "x"}], "y", None, [], 3)]
    replicas += [{}, {"status": None}, {"status": {"node": "n", "readiness_issue": {"reason": None}}}]
    said = [word.text for word in replica_messages(replicas, now=True)]
    assert said == ["NoCapacity: none", "NoCapacity: none", "x", "y", "3"]
    dated = [{"reason": "b", "last_observed_time": 2}, {"reason": "a", "last_observed_time": "2026"}]
    assert [word.text for word in event_messages(map(read_event, [*dated, {}, {"note": "c"}]))] == ["a", "c", "b"]
    odd = {"err_class": None, "job_failure_by_node_event": [None, "x", {"message": "m", "node": {"name": "n"}}]}
    assert analysis_of(odd).messages[0].text == "m"
    assert analysis_of({"job_failure_by_node_event": 3}).messages == ()


def test_how_much_is_asked(api: LeptonApi, lepton_lab: LeptonLab):
    lepton_lab.scenario("waits", "nocapacity")
    handle = submit(api, "waits")
    seen = seen_as(api, handle, lambda seen: _stuck(seen, "queue"))
    for state, asked in (("queued", 2), ("running", 1), ("failed", 3)):
        before = api.web.calls
        diagnose(api, handle, replace(seen, state=state), b"")
        assert api.web.calls - before == asked, state
