"""What befalls a running job, and what Lepton says of it afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from labs.lepton.job import Attempt, Job, Replica
from labs.lepton.scenario import Issue
from labs.pods import Pod, kill_together, stop_together

if TYPE_CHECKING:
    from labs.lepton.base import LeptonBase

Ending = Callable[["LeptonBase", Job, Attempt], None]


def oom(lab: LeptonBase, job: Job, attempt: Attempt) -> None:
    """A process of one replica is killed as the kernel does it."""
    victim = attempt.replicas[attempt.scenario.index]
    message = "OOM encountered, victim process: python3, pid: 3368483"
    _hit(job, victim, Issue("SystemError", "OOMKilled", (("Warning", "OOMKilling", message),)))
    job.analysis = _analysis(attempt, "ERR_PROGRAM", "The job ran out of memory: reduce the batch size", "OOM", message)
    assert victim.pod is not None
    victim.pod.oom(whole=attempt.scenario.whole)


def gpu_oom(lab: LeptonBase, job: Job, attempt: Attempt) -> None:
    """A GPU's memory is full: the program ends by itself, and the platform has read its log."""
    victim = attempt.replicas[attempt.scenario.index]
    message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    victim.says(Issue("SystemError", message))
    job.analysis = _analysis(attempt, "ERR_PROGRAM", "CUDA out of memory: reduce the batch size", "OOM", message)
    assert victim.pod is not None
    victim.pod.kill()


def evict(lab: LeptonBase, job: Job, attempt: Attempt) -> None:
    """All replicas are asked to end, and killed soon after."""
    message = "Preempted by a workload of higher priority"
    for replica in attempt.replicas:
        _hit(job, replica, Issue("SystemError", "Evicted", (("Warning", "Preempted", message),)))
    job.analysis = _analysis(attempt, "ERR_INFRA", "The job was evicted: submit it again", "Evicted", message)
    stop_together(_pods(attempt), min(attempt.scenario.grace, lab.timings.grace))


def node(lab: LeptonBase, job: Job, attempt: Attempt) -> None:
    """A node fails: its replica is gone at once, and the node takes no others."""
    victim = attempt.replicas[attempt.scenario.index]
    message = "XID 79: GPU has fallen off the bus"
    _hit(job, victim, Issue("SystemError", "Node not ready", (("Warning", "NodeNotReady", message),)))
    job.analysis = _analysis(attempt, "ERR_INFRA", "A node failed: submit the job again", "XID", message)
    group = lab.world.group_of(victim.node)
    group.nodes[:] = [
        replace(each, unschedulable=True, status=("NotReady",)) if each.id == victim.node else each
        for each in group.nodes
    ]
    assert victim.pod is not None
    victim.pod.kill()


def vanish(lab: LeptonBase, job: Job, attempt: Attempt) -> None:
    """The platform forgets the job."""
    job.deleted = True
    kill_together(_pods(attempt))


def expire(lab: LeptonBase, job: Job, attempt: Attempt) -> None:
    """The client's token is not good any more."""
    lab.expire_token()


ENDINGS: Mapping[str, Ending] = {
    "oom": oom,
    "gpu_oom": gpu_oom,
    "evict": evict,
    "node": node,
    "vanish": vanish,
    "expire": expire,
}


def analysis_of(replica: Replica) -> dict[str, Any]:
    """What Lepton says of a replica that failed by itself."""
    lines = [line.decode(errors="replace") for _, line in (replica.pod.log[-20:] if replica.pod else [])]
    return {
        "err_class": "ERR_PROGRAM",
        "suggestion": f"The program exited with code {replica.code}: see its log",
        "job_failure_by_node_event": [],
        "log_streams": [{"replica": replica.id, "lines": lines}],
    }


def _pods(attempt: Attempt) -> list[Pod]:
    return [replica.pod for replica in attempt.replicas if replica.pod]


def _hit(job: Job, replica: Replica, issue: Issue) -> None:
    replica.says(issue)
    job.note(issue, replica.id)


def _analysis(attempt: Attempt, kind: str, suggestion: str, event: str, message: str) -> dict[str, Any] | None:
    if not attempt.scenario.analysed:
        return None
    return {
        "err_class": kind,
        "suggestion": suggestion,
        "job_failure_by_node_event": [{"node_event_name": event, "message": message}],
        "log_streams": [],
    }
