"""One verdict out of all that a platform, its pods and a log say: the right kind, and the very line that shows it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from nemo_runspec.diagnosis.causes import (
    MESSAGES,
    POD_KINDS,
    PRECEDENCE,
    cause_of,
    says_killed_for_memory,
)
from nemo_runspec.diagnosis.display import rows_of
from nemo_runspec.diagnosis.engine import diagnose
from nemo_runspec.diagnosis.model import Analysis, Case, Message, PassedDeadline, Platform
from nemo_runspec.diagnosis.patterns import PATTERNS
from nemo_runspec.diagnosis.pulls import may_pass
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.script.markers import NodeMarker

NO_DNS = (
    'Failed to pull image "nvcr.io/nvidia/nemo:25.11": rpc error: code = Unavailable desc = failed to do request: '
    'Head "https://nvcr.io/v2/nvidia/nemo/manifests/25.11": dial tcp: lookup nvcr.io on 10.96.0.10:53: no such host'
)
DENIED = 'Failed to pull image "nvcr.io/x:1": failed to authorize: unexpected status: 401 Unauthorized'
KINDS = {"user code", "out of memory", "image", "capacity", "credentials", "node", "eviction", "storage", ""}
REMEDIES = {kind: f"mend {kind}" for kind in KINDS if kind} | {"image login": "see NGC_KEY"}
PLATFORM = Platform("the platform", REMEDIES, POD_KINDS, {"bad GPU": "mend node"})

TRACEBACK = b"""step 1
Traceback (most recent call last):
  File "/job/code/train.py", line 7, in <module>
    raise ValueError("a shape is wrong")
ValueError: a shape is wrong
"""
CUDA = TRACEBACK.replace(b"ValueError: a shape is wrong", b"torch.OutOfMemoryError: CUDA out of memory. Tried")
NCCL = b"[rank3]: torch.distributed.DistBackendError: NCCL error, remote process exited\n"
SCHEDULER = (
    "FailedScheduling: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu. preemption: 0/4 nodes are available: "
    "4 No preemption victims found for incoming pod."
)


def end(node: int = 0, exit_code: int = 1, **more: Any) -> NodeMarker:
    return NodeMarker(node, exit_code, **more)


def unstarted(reason: str) -> dict[str, Any]:
    return {"ends": [end(phase="start", reason=reason)]}


def verdict(state: str = "failed", **known: Any) -> Diagnosis | None:
    ends = known.pop("ends", ())
    return diagnose(Case(state, PLATFORM, markers=ends, **known))


def words(*texts: str, now: bool = False, node: str = "") -> list[Message]:
    return [Message(text, node, now) for text in texts]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("out of memory", "OOM: OOM encountered, victim process: trainer, pid: 3368483"),
        ("out of memory", "SystemError: OOMKilled"),
        ("out of memory", "Terminated: OOMKilled (exit code 137)"),
        ("image", "Failed: Failed to pull image: 401 Unauthorized nvcr.io"),
        ("image", 'ErrImagePull: pull access denied for nvcr.io/x, may require "docker login"'),
        ("image", "Failed: rpc error: code = NotFound desc = failed to pull and unpack image: not found"),
        ("image", "BackOff: Back-off pulling image nvcr.io/nvidia/nemo:1"),
        ("image", "InvalidImageName: couldn't parse image reference"),
        ("image", "CreateContainerError: exec: bash: executable file not found in $PATH: unknown"),
        ("image", "toomanyrequests: You have reached your pull rate limit"),
        ("image", "Failed: Failed to pull image nvcr.io/x: x509: certificate signed by unknown authority"),
        ("image", 'Failed to pull image "ghcr.io/x:1": failed to resolve reference: ghcr.io/x:1: not found'),
        ("node", NO_DNS),
        ("node", f"ErrImagePull: {NO_DNS}"),
        ("node", 'Failed to pull image "nvcr.io/x:1": connect: network is unreachable'),
        ("node", "Failed to pull image x: failed to authorize: 403: dial tcp 10.1.1.1: connect: connection refused"),
        ("node", 'failed to resolve reference: Head "https://ghcr.io/v2/x": dial tcp 10.1.1.1:443: i/o timeout'),
        ("node", 'Failed: Head "https://nvcr.io/v2/x": net/http: TLS handshake timeout'),
        ("node", "Failed to pull image x: dial tcp: lookup nvcr.io on 10.96.0.10:53: server misbehaving"),
        ("", "Unhealthy: Readiness probe of image x failed: connection refused"),
        ("capacity", "Queueing: Insufficient nvidia.com/gpu"),
        ("capacity", "NoCapacity: no capacity in the node group"),
        ("capacity", SCHEDULER),
        ("capacity", "Unschedulable: the project is over its quota"),
        ("eviction", "SystemError: Evicted"),
        ("eviction", "Preempted: by a workload of higher priority"),
        ("eviction", "Evicted: The node was low on resource: memory."),
        ("storage", "Evicted: Pod ephemeral local storage usage exceeds the total limit of containers 10Gi."),
        ("storage", 'FailedScheduling: persistentvolumeclaim "data" not found'),
        ("storage", "ConfigError: volume lustre does not exist"),
        ("node", "ConfigError: Mount point not found"),
        ("node", "FailedMount: MountVolume.SetUp failed for volume data: timeout"),
        ("node", "NodeNotReady: Node is not ready"),
        ("node", "GPU error: Xid 79, GPU has fallen off the bus"),
        ("node", "TaintManagerEviction: Marking for deletion Pod x"),
        ("credentials", 'CreateContainerConfigError: secret "hf-token" not found'),
        ("credentials", "CreateContainerConfigError: couldn't find key HF_TOKEN in Secret runai-x/hf"),
        ("", 'CreateContainerConfigError: configmap "settings" is wrong'),
        ("", "InProgress: Pulling image"),
        ("", "Queueing"),
        ("", "Scheduled: Successfully assigned runai-team/x to node-1"),
        ("", "Pulled: Successfully pulled image nvcr.io/nvidia/nemo:1 in 40s"),
        ("", "Created: Created container main"),
        ("", "Something the platform never said before"),
    ],
)
def test_words(kind: str, text: str):
    """What one line means, in whatever case it is written; a word that nobody knows means nothing."""
    for said in (text, text.lower()):
        found = cause_of(said)
        assert (found.kind if found else "") == kind


LOST_NODE = {"ends": [end(reason="node 1 failed"), end(1, 137, signal=9, oom=True, host="n2")]}

CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "traceback": ("user code", "ValueError: a shape is wrong", {"tail": TRACEBACK, "ends": [end()]}),
    "without a marker": ("user code", "ValueError: a shape is wrong", {"tail": TRACEBACK}),
    "silent exit code": ("user code", "the last words", {"tail": b"the last words\n", "ends": [end(exit_code=3)]}),
    "quick failure": (
        "user code", "ERR_PROGRAM", {"analysis": Analysis("ERR_PROGRAM", "look at the program"), "exit_code": 1}
    ),
    "kernel": ("out of memory", "kernel", {"ends": [end(exit_code=137, signal=9, oom=True)]}),
    "platform's OOM": (
        "out of memory", "OOM: victim", {"analysis": Analysis("ERR_PROGRAM", "", (Message("OOM: victim process"),))}
    ),
    "GPU memory goes first": (
        "out of memory", "CUDA out of memory",
        {"tail": CUDA, "ends": [end()], "analysis": Analysis("", "", (Message("OOM: victim process"),))},
    ),
    "the node that was killed": ("out of memory", "kernel", LOST_NODE),
    "evicted": ("eviction", "SystemError: Evicted", {"messages": words("SystemError: Evicted", now=True)}),
    "evicted, its program complains": (
        "eviction", "Preempted: taken", {
            "events": words("Preempted: taken"), "tail": TRACEBACK, "ends": [end(exit_code=1, received="TERM")],
        },
    ),
    "evicted, others lose it": ("eviction", "Preempted", {"events": words("Preempted"), "tail": NCCL, "ends": [end()]}),
    "failed before it was evicted": (
        "user code", "ValueError", {"events": words("Preempted: taken"), "tail": TRACEBACK, "ends": [end()]}
    ),
    "the platform's word for a full GPU": (
        "out of memory", "CUDA error: out of memory",
        {"analysis": Analysis("ERR_PROGRAM", "", (Message("OOM: CUDA error: out of memory"),)), "exit_code": 1},
    ),
    "a full GPU in a suggestion": (
        "out of memory", "CUDA out of memory",
        {"analysis": Analysis("ERR_PROGRAM", "CUDA out of memory: reduce the batch size"), "exit_code": 1},
    ),
    "a pull, and what is newer": (
        "image", "401 Unauthorized",
        {"events": words(f"Failed: {DENIED}", "Failed: Error: ErrImagePull", "BackOff: Back-off pulling image x")},
    ),
    "bad node": ("node", "ERR_INFRA", {"analysis": Analysis("ERR_INFRA", "tell support"), "tail": b""}),
    "broken GPU": (
        "node", "uncorrectable ECC", {"tail": b"RuntimeError: CUDA error: uncorrectable ECC error\n", "ends": [end()]}
    ),
    "history of a start that went well": (
        "user code", "ValueError",
        {"events": words(SCHEDULER, "FailedMount: timed out", "BackOff: Back-off pulling image x"),
         "tail": TRACEBACK, "ends": [end()]},
    ),
    "history, and no log": (
        "user code", "ERR_PROGRAM",
        {"events": words(SCHEDULER, "FailedMount: timed out", "Started: Started container main"),
         "analysis": Analysis("ERR_PROGRAM", "see its log")},
    ),
    "never ran": ("image", "unauthorized", {"events": words("Queued", "Failed to pull image x: unauthorized")}),
    "code did not arrive": (
        "credentials", "403", unstarted("the code package cannot be downloaded: curl: (22) error: 403")
    ),
    "code is broken": ("storage", "arrive whole", unstarted("the code package did not arrive whole")),
    "rendezvous": ("", "host names", unstarted("the host names of nodes are not known")),
    "no room to start": (
        "storage", "No space left", unstarted("mkdir failed: No space left on device")
    ),
    "not its storage": (
        "storage", "Permission denied", unstarted("mkdir failed: Permission denied")
    ),
    "image without tools": (
        "image", "no curl", unstarted("the image has no curl, wget or python3")
    ),
    "inputs": ("storage", "inputs: ", unstarted("inputs: s3://b/x: not there")),
    "pre_launch": (
        "user code", "foo: command not found",
        {"tail": b"bash: foo: command not found\n",
         "ends": [end(phase="start", reason="a command of pre_launch_commands failed")]},
    ),
    "told to stop before it began": (
        "eviction", "Evicted",
        {"ends": [end(exit_code=143, phase="start", reason="the job was told to stop before it had started")],
         "events": words("Evicted: taken")},
    ),
    "outputs": ("storage", "outputs: ", {"ends": [end(reason="outputs: 2 of 3 files of /out: HTTP 500")]}),
    "outputs refused": ("credentials", "403", {"ends": [end(reason="outputs: /out: HTTP 403 AccessDenied")]}),
    "setup": (
        "user code", "foo: command not found",
        {"tail": b"bash: line 1: foo: command not found\n",
         "ends": [end(exit_code=127, phase="setup", reason="startup_commands failed")]},
    ),
    "no room on a disk": (
        "storage", "No space left", {"tail": b"OSError: [Errno 28] No space left on device: '/x'\n", "ends": [end()]}
    ),
    "other ranks' words": ("", "NCCL error", {"tail": NCCL, "ends": [end()]}),
    "stalled": ("stall", "no progress for 4 s", {
        "tail": NCCL, "ends": [end(exit_code=124, reason="no progress for 4 s (stall_timeout)")]}),
    "killed by somebody": ("", "signal 9", {"ends": [end(exit_code=137, signal=9)]}),
    "queue": ("capacity", "Queueing", {"deadline": PassedDeadline("queue"), "messages": words("Queueing", now=True)}),
    "pull": ("image", "Pulling image", {
        "deadline": PassedDeadline("pull"), "messages": words("InProgress: Pulling image", now=True)}),
    "start": ("", "start_timeout", {"reason": "start_timeout: 15 min", "deadline": PassedDeadline("start")}),
    "deadline, and why": (
        "node", "Mount point",
        {"deadline": PassedDeadline("start"), "messages": words("ConfigError: Mount point not found", now=True)},
    ),
    "nothing": ("", "", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_failed_job(name: str):
    kind, evidence, known = CASES[name]
    found = verdict(**known)
    assert found is not None
    assert found.kind == kind
    assert evidence in found.evidence
    assert found.what
    assert found.remedy


def test_a_full_gpu_is_nothing_that_the_kernel_did():
    for name in ("the platform's word for a full GPU", "a full GPU in a suggestion"):
        found = verdict(**CASES[name][2])
        assert found is not None
        assert "GPU memory" in found.what
        assert "kernel" not in found.what
    for text in (
        "OOM: CUDA error: out of memory",
        "torch.OutOfMemoryError: CUDA out of memory. Tried",
        "HIP out of memory",
    ):
        assert not says_killed_for_memory(text), text
    for text in (
        "SystemError: OOMKilled",
        "Memory cgroup out of memory: Killed process 7",
        "OOM encountered, victim: x",
    ):
        assert says_killed_for_memory(text), text


def test_what_the_platform_makes_of_it_stands_beside():
    """Its class, its suggestion and its lines, whatever our own verdict is; nothing where it says nothing."""
    streams = [{"replica": "x-0", "lines": ["a", "b"]}]
    said = Analysis("ERR_PROGRAM", "look at the program", (), streams)
    found = verdict(analysis=said, tail=TRACEBACK, ends=[end()])
    assert found is not None
    assert found.kind == "user code"
    assert found.platform == {
        "name": "the platform", "err_class": "ERR_PROGRAM", "suggestion": "look at the program", "log_streams": streams
    }  # fmt: skip
    rows = dict(rows_of(asdict(found)))
    assert rows["the platform suggests"] == "look at the program"
    assert rows["the platform shows"] == "a / b"
    other = verdict(tail=TRACEBACK, ends=[end()])
    assert other is not None
    assert other.platform == {}
    assert list(dict(rows_of(asdict(other)))) == ["diagnosis", "seen in", "what to do"]


def test_which_of_several_lines_about_a_pull_is_told():
    """What names the cause, older or newer; of those that do, what is so now, then the newest."""
    vague = words("Waiting: ImagePullBackOff: Back-off pulling image x", now=True)
    found = verdict("starting", messages=vague, events=words(f"Failed: {DENIED}", "Failed: Error: ErrImagePull"))
    assert found is not None
    assert found.evidence == f"Failed: {DENIED}"
    later = verdict("starting", messages=vague, events=words(f"Failed: {DENIED}", "Failed: pull of image x: not found"))
    assert later is not None
    assert later.what == "there is no such image in the registry"
    alone = verdict("starting", messages=vague)
    assert alone is not None
    assert alone.kind == "image"


def test_one_that_is_degraded():
    """It runs, and not all of it does: what was written down counts."""
    events = words("Started: Started container main", f"Failed: {DENIED}")
    assert verdict("running", events=events) is None
    found = verdict("running", events=events, ailing=True)
    assert found is not None
    assert found.kind == "image"


@pytest.mark.parametrize(
    ("passing", "text"),
    [
        (False, NO_DNS), (False, DENIED), (False, "pull of image x: not found"),
        (True, "dial tcp: lookup nvcr.io on 10.96.0.10:53: server misbehaving"), (True, "i/o timeout"),
        (True, "429 toomanyrequests"), (True, "connection refused"), (True, "Temporary failure in name resolution"),
    ],
)  # fmt: skip
def test_which_pulls_may_succeed_the_next_time(passing: bool, text: str):
    assert may_pass(text) is passing


def test_a_job_that_waits():
    pulling = words("InProgress: Pulling image", now=True)
    assert verdict("starting", messages=pulling, events=words("Scheduled: to node-1")) is None
    assert verdict("queued", messages=words("Queueing", now=True)) is None
    found = verdict("queued", messages=words("Queueing: Insufficient nvidia.com/gpu", now=True))
    assert found == Diagnosis(
        "capacity", "there is no room for it", "Queueing: Insufficient nvidia.com/gpu", "mend capacity"
    )
    stuck = verdict("starting", messages=words("Failed: 401 Unauthorized nvcr.io", now=True))
    assert stuck is not None
    assert (stuck.kind, stuck.remedy) == ("image", "see NGC_KEY")


def test_a_registry_that_a_node_does_not_reach():
    """The node is to blame, whatever the kubelet says of the image afterwards; once it has run that is history."""
    backoff = 'BackOff: Back-off pulling image "nvcr.io/nvidia/nemo:25.11"'
    found = verdict("starting", messages=words(NO_DNS, backoff, now=True, node="n7"))
    assert found == Diagnosis(
        "node", "its node (n7) does not reach the registry that its image names", NO_DNS, "mend node", nodes=("n7",)
    )
    assert verdict("running", events=words(NO_DNS)) is None


def test_a_job_that_runs():
    """Of one that runs only what is so now counts: how it came to run is history."""
    assert verdict("running", events=words(SCHEDULER, "BackOff: Back-off pulling image x")) is None
    partly = verdict("running", messages=words("ConfigError: Mount point not found", now=True, node="n7"))
    assert partly is not None
    assert partly.kind == "node"
    assert "n7" in partly.what


@pytest.mark.parametrize("state", ["succeeded", "cancelled"])
def test_a_job_that_needs_none(state: str):
    assert verdict(state, tail=TRACEBACK, events=words("Evicted: taken")) is None


def test_a_deadline_that_stopped_it():
    found = verdict("cancelled", deadline=PassedDeadline("queue"), events=words(SCHEDULER))
    assert found is not None
    assert found.kind == "capacity"
    assert "queue_timeout" in found.what


def test_a_failure_that_no_node_knows_of():
    said = Analysis("ERR_PROGRAM", "the program ended with code 0: see its log")
    ends = [end(0, exit_code=0), end(1, exit_code=0)]
    found = verdict(ends=ends, nodes=2, analysis=said)
    assert found is not None
    assert (found.kind, found.evidence) == ("", f"the platform: ERR_PROGRAM: {said.suggestion}")
    assert "exit code 0" in found.what
    for less in ({"ends": ends, "nodes": 3}, {"ends": [ends[0], end(1)], "nodes": 2}):
        other = verdict(analysis=said, **less)  # one node has not said so
        assert other is not None
        assert (other.kind, other.remedy) == ("user code", "mend user code")
        assert said.suggestion in other.evidence or "ended with" in other.what
    evicted = verdict(ends=ends, nodes=2, events=words("Evicted: taken"))
    assert evicted is not None
    assert evicted.kind == "eviction"


def test_an_ordinary_wait_is_no_want_of_room():
    for text in ("Queueing: Waiting for resources", "Queueing: waiting until 2 nodes are available"):
        assert cause_of(text) is None


def test_a_pull_that_failed_for_some_minutes():
    """Its own time was up, not that of pull_timeout."""
    passed = PassedDeadline("pull", "5 min")
    found = verdict("starting", deadline=passed, messages=words("Failed: 401 Unauthorized nvcr.io", now=True))
    assert found is not None
    assert found.what.endswith("let this job have the image (tried for longer than 5 min)")


def test_what_was_not_answered():
    found = verdict(unasked=("events", "replicas"))
    assert found is not None
    assert "did not answer about its events, replicas" in found.what


def test_the_machine_is_named():
    """Of a node's failure: whoever submits it again without that node finds the name there."""
    by_event = verdict(
        analysis=Analysis("", "", (Message("XID: XID 79"),)), messages=words("Node not ready", node="n1")
    )
    by_log = verdict(tail=b"RuntimeError: CUDA error: uncorrectable ECC error\n", ends=[end(host="n3")])
    for found, name in ((by_event, "n1"), (by_log, "n3")):
        assert found is not None
        assert found.kind == "node"
        assert name in found.what


def test_the_tables():
    """Nothing leaves them but the kinds that are promised, and each of a log's kinds was thought about."""
    assert {meaning.kind for meaning in MESSAGES} | set(POD_KINDS.values()) <= KINDS
    assert {meaning.kind for meaning in MESSAGES} == set(PRECEDENCE)
    undecided = {"killed", "communication", "network", "interrupted", "port in use", "rate limit"}
    assert {pattern.kind for pattern in PATTERNS} - set(POD_KINDS) <= undecided
