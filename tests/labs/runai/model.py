"""What the server keeps: projects, workloads, their pods and events, and how each is put in the API's words."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from labs.pods import Pod

TYPES = {"trainings": "Training", "distributed": "Distributed", "workspaces": "Workspace"}
OVER = ("Completed", "Failed", "Stopped")
TENANT = 1001
USER = "service-account-lab"


def iso(moment: float | None) -> str | None:
    """A time in seconds as run:ai writes it: RFC 3339, milliseconds, UTC."""
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class Project:
    """Its workloads live in the namespace `runai-<name>` of its cluster."""

    id: str
    name: str
    cluster: str
    created: float

    @property
    def namespace(self) -> str:
        """The Kubernetes namespace."""
        return f"runai-{self.name}"

    def json(self) -> dict[str, Any]:
        """An entry of GET /org-unit/projects."""
        return {
            "id": self.id,
            "name": self.name,
            "clusterId": self.cluster,
            "parentId": "1",
            "createdAt": iso(self.created),
            "updatedAt": iso(self.created),
            "requestedNamespace": self.namespace,
            "status": {"namespace": self.namespace, "phase": "Ready"},
        }


@dataclass
class Scenario:
    """What happens to workloads that it matches.

    Args:
        prefix: of their names; None is any.
        times: how many of them; None is all.
        settings: see `labs.runai.scenes`.
    """

    kind: str
    prefix: str | None = None
    times: int | None = 1
    settings: dict[str, Any] = field(default_factory=dict)

    def get(self, name: str, default: Any) -> Any:
        """A setting."""
        return self.settings.get(name, default)


@dataclass
class LabPod:
    """A pod with its one container. `process` is None until it runs."""

    name: str
    role: str
    """`master`, `worker`, or '' where there is but one."""
    index: int
    container: str
    image: str
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    created: float = field(default_factory=time.time)
    node: str | None = None
    waiting: tuple[str, str] = ("", "")
    """Why the container does not run yet: reason and message."""
    process: Pod | None = None
    previous: Pod | None = None
    restarts: int = 0
    reason: str = ""
    """Why it ended, where the container does not tell: Evicted, NodeLost, StartError …"""
    status_reason: str = ""
    """Of the pod itself: Evicted, NodeLost, Preempted."""
    started: float | None = None
    finished: float | None = None

    @property
    def exit_code(self) -> int | None:
        """Of its container; None while it runs or waits."""
        return self.process.exit_code if self.process else None

    @property
    def phase(self) -> str:
        """As Kubernetes has it."""
        process = self.process  # it may be another one the next moment
        if process is None:
            return "Pending"
        code = process.exit_code
        if code is None:
            return "Running"
        return "Succeeded" if code == 0 else "Failed"


@dataclass
class Workload:
    """What was asked for, and what has become of it."""

    kind: str
    name: str
    request: Mapping[str, Any]
    project: Project
    scenario: Scenario | None = None
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    created: float = field(default_factory=time.time)
    phase: str = "Pending"
    message: str = ""
    desired: str = "Running"
    changed: float = field(default_factory=time.time)
    completed: float | None = None
    deleted: float | None = None
    pods: list[LabPod] = field(default_factory=list)
    removed: list[LabPod] = field(default_factory=list)
    """Pods that are no longer in Kubernetes."""
    events: list[dict[str, Any]] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    pending_reason: str = ""
    over: threading.Event = field(default_factory=threading.Event, repr=False)
    """Set once it has ended and nothing of it runs."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """What it shall run; the workers' where there are several."""
        spec: Mapping[str, Any] = self.request["spec"]
        return spec

    @property
    def shown(self) -> str:
        """The phase as the API tells it."""
        return self._shown(self.phase)

    def _shown(self, phase: str) -> str:
        told = {"unknown_phase": "Hibernating", "degraded": "Degraded"}
        if phase == "Running" and self.scenario and self.scenario.kind in told:
            return str(self.scenario.get("phase", told[self.scenario.kind]))
        return phase

    def enter(self, phase: str, message: str = "") -> None:
        """Changes its phase, and takes that down."""
        # The phase itself comes last: who sees it sees all that goes with it.
        self.message, self.changed = message, time.time()
        if phase in OVER:
            self.completed = self.changed
        update = {"phase": self._shown(phase), "phaseMessage": message}
        meta = {"creationTimestamp": iso(self.changed), "type": "PhaseUpdate"}
        self.history.append({"meta": meta, "spec": {"phaseUpdate": update}})
        self.phase = phase

    def tell(self, reason: str, message: str, pod: LabPod | None = None, *, kind: str = "Normal") -> None:
        """Adds an event, of a pod or of the workload."""
        now = iso(time.time())
        target = (
            {"uid": pod.id, "kind": "Pod", "name": pod.name}
            if pod
            else {"uid": self.id, "kind": "Workload", "name": self.name}
        )
        event = {
            "id": str(uuid.uuid4()),
            "createdAt": now,
            "type": kind,
            "reason": reason,
            "message": message,
            "clusterId": self.project.cluster,
            "source": "kubelet" if pod and pod.node else "runai-scheduler",
            "involvedObject": {**target, "namespace": self.project.namespace},
        }
        self.events.append(event)
        self.history.append({"meta": {"creationTimestamp": now, "type": "Event"}, "spec": {"event": event}})


def pods_of(workload: Workload) -> list[LabPod]:
    """The pods that it shall have, the first of which has rank 0.

    Names and the container's name are those of Kubeflow's operator (`<job>-master-0`, `<job>-worker-N`, `pytorch`) and,
    for one pod, those of a run:ai training (`<job>-0-0`; the OpenAPI document's example of an event names one so).
    """
    spec, request = workload.spec, workload.request
    if workload.kind != "distributed":
        return [LabPod(f"{workload.name}-0-0", "", 0, workload.name, spec["image"])]
    master = bool(request.get("masterSpecSameAsWorker") or request.get("masterSpec"))
    count = int(spec.get("numWorkers") or 1)
    roles = [("master", 0)] if master else []
    roles += [("worker", index) for index in range(count)]
    images = {"master": (request.get("masterSpec") or spec).get("image") or spec["image"], "worker": spec["image"]}
    return [LabPod(f"{workload.name}-{role}-{index}", role, index, "pytorch", images[role]) for role, index in roles]


def labels_of(workload: Workload, pod: LabPod) -> dict[str, str]:
    """A pod's labels: Kubeflow's, and the workload's name and the request's own.

    That run:ai sets `workloadName` was found in no document; names from GET /workloads/ID/pods are the sure way.
    """
    own = {item["name"]: item.get("value") or "" for item in _given(workload.spec.get("labels"))}
    common = {"workloadName": workload.name, "project": workload.project.name, "release": workload.name, **own}
    if not pod.role:
        return common
    prefix = "training.kubeflow.org"
    return {
        **common,
        f"{prefix}/job-name": workload.name,
        f"{prefix}/replica-type": pod.role,
        f"{prefix}/replica-index": str(pod.index),
    }


def _given(items: Iterable[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
    return [item for item in items or () if not item.get("exclude")]
