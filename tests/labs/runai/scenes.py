"""What can go wrong with a workload; each is asked for by `lab.scenario(prefix, kind, **settings)`.

Settings of those that strike while it runs: `after`, seconds of running (by default 0.3), or `when`, a text that a pod
has written; `index`, which pod (by default 0).

    oom            a container's memory is used up; whole=True kills all of it, else its biggest process
    evicted        a pod is evicted; reason="Evicted" or "Preempted", grace seconds (1), message; with again=True the
                   workload goes back to Pending and is run anew, as run:ai does with what it preempts
    badnode        the volumes cannot be mounted on the node, for ever; with lost=True the node is lost while it runs;
                   node="gpu-node-2": only workloads that come to that node, others do not count
    expired        all tokens become invalid
    imagepull      the image cannot be pulled, for ever; message
    nocapacity     there are no nodes, for ever; or for `seconds`
    quickfail      the container fails before the workload was ever Running; script, exit_code (128)
    slow_start     pending, creating, initializing: seconds each takes (by default all `seconds`, 1)
    unknown_phase  `phase` is told instead of Running
    degraded       Degraded is told instead of Running; lame=1: the image of the pod of that index cannot be pulled,
                   for ever, while the others run; message
    truncated_log  Kubernetes keeps only the last `lines` of a log (3); with lost_end=N all but the last N
    vanished       the pods are gone from Kubernetes as soon as it is over
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from labs.runai.model import LabPod, Scenario, Workload

if TYPE_CHECKING:
    from labs.runai.life import Life

KINDS = (
    "oom", "evicted", "badnode", "expired", "imagepull", "nocapacity", "quickfail", "slow_start", "unknown_phase",
    "degraded", "truncated_log", "vanished",
)  # fmt: skip
STRIKING = ("oom", "evicted", "badnode", "expired")
_PULL = "failed to authorize: failed to fetch anonymous token: unexpected status: 401 Unauthorized"


def strike(life: Life, workload: Workload, scenario: Scenario) -> None:
    """Does to a running workload what its scenario says."""
    pod = workload.pods[min(int(scenario.get("index", 0)), len(workload.pods) - 1)]
    _STRIKES[scenario.kind](life, workload, pod, scenario)


def _oom(life: Life, workload: Workload, pod: LabPod, scenario: Scenario) -> None:
    workload.tell("OOMKilling", f"Memory cgroup out of memory: Killed process in {pod.container}", pod, kind="Warning")
    if pod.process:
        pod.process.oom(whole=bool(scenario.get("whole", True)))


def _evicted(life: Life, workload: Workload, pod: LabPod, scenario: Scenario) -> None:
    reason = str(scenario.get("reason", "Evicted"))
    message = scenario.get("message", "The node was low on resource: memory.")
    pod.status_reason = reason
    workload.tell(reason, str(message), pod, kind="Warning")
    if pod.process:
        pod.process.stop(float(scenario.get("grace", 1)))


def _lost(life: Life, workload: Workload, pod: LabPod, scenario: Scenario) -> None:
    pod.status_reason = "NodeLost"
    workload.tell("NodeNotReady", f"Node {pod.node} is not ready", pod, kind="Warning")
    workload.tell("TaintManagerEviction", f"Marking for deletion Pod {pod.name}", pod, kind="Warning")
    if pod.process:
        pod.process.kill()


def _expired(life: Life, workload: Workload, pod: LabPod, scenario: Scenario) -> None:
    life.lab.expire_tokens()


_STRIKES: dict[str, Callable[[Life, Workload, LabPod, Scenario], None]] = {
    "oom": _oom,
    "evicted": _evicted,
    "badnode": _lost,
    "expired": _expired,
}


def unschedulable(workload: Workload, why: str) -> None:
    """Tells that there are no nodes for it."""
    workload.pending_reason = why
    workload.enter("Pending", f"Not enough resources in the requested nodepool: {why}")
    for pod in workload.pods:
        workload.tell("Unschedulable", why, pod, kind="Warning")


def unmountable(workload: Workload, node: str) -> None:
    """Tells that volumes cannot be mounted on a node."""
    for pod in workload.pods:
        if pod.node == node:
            pod.waiting = ("ContainerCreating", "")
            message = "MountVolume.SetUp failed for volume: rpc error: mount point not found on node " + node
            workload.tell("FailedMount", message, pod, kind="Warning")


def unpullable(workload: Workload, scenario: Scenario, pods: Sequence[LabPod]) -> None:
    """Tells that the image of these pods cannot be pulled; what says of what it failed is not the newest."""
    for pod in pods:
        why = f'Failed to pull image "{pod.image}": {scenario.get("message", _PULL)}'
        pod.waiting = ("ImagePullBackOff", f'Back-off pulling image "{pod.image}": {why}')
        workload.tell("Failed", why, pod, kind="Warning")
        workload.tell("Failed", "Error: ErrImagePull", pod, kind="Warning")
    for pod in pods:
        workload.tell("BackOff", f'Back-off pulling image "{pod.image}"', pod, kind="Warning")


def unconfigured(workload: Workload, pod: LabPod, why: str) -> None:
    """Tells that the container cannot be made, such as for a secret that does not exist."""
    pod.waiting = ("CreateContainerConfigError", why)
    workload.tell("Failed", f"Error: {why}", pod, kind="Warning")
