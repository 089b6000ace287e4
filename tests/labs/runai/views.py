"""Workloads and pods in the words of the control plane's API.

Source: WorkloadMeta, Workload, WorkloadDetailed and Pod in NVIDIA's OpenAPI document (`openapi/` of
github.com/api-evangelist/runai: runai-distributed-api, runai-workloads-api, runai-pods-api).
"""

from __future__ import annotations

from typing import Any

from labs.runai.model import TENANT, TYPES, USER, LabPod, Workload, iso


def workload_of_kind(workload: Workload) -> dict[str, Any]:
    """The answer to its creation and to GET /workloads/KIND/ID: WorkloadMeta and the parts of the request."""
    request = workload.request
    parts = ("spec", "masterSpecSameAsWorker", "masterSpec")
    return {
        "name": workload.name,
        "requestedName": request["name"],
        "workloadId": workload.id,
        "projectId": workload.project.id,
        "departmentId": "1",
        "clusterId": workload.project.cluster,
        "createdBy": USER,
        "createdAt": iso(workload.created),
        "deletedAt": iso(workload.deleted),
        "desiredPhase": workload.desired,
        "actualPhase": workload.shown,
        **{part: request[part] for part in parts if part in request},
    }


def workload_of_any(workload: Workload) -> dict[str, Any]:
    """An entry of GET /workloads."""
    changed, spec = iso(workload.changed), workload.spec
    return {
        **_whose(workload),
        "type": TYPES[workload.kind],
        "phase": workload.shown,
        "phaseMessage": workload.message,
        "phaseUpdatedAt": changed,
        "k8sPhase": workload.phase,
        "k8sPhaseUpdatedAt": changed,
        "conditions": _conditions(workload),
        "createdAt": iso(workload.created),
        "updatedAt": changed,
        "completedAt": iso(workload.completed),
        "deletedAt": iso(workload.deleted),
        "source": "Control-plane",
        "priority": 50,
        "priorityClassName": "train",
        "category": "Train",
        "runningPods": sum(pod.phase == "Running" for pod in workload.pods),
        "requestedPods": {"number": max(len(workload.pods), 1)},
        "images": [spec.get("image")],
        "command": spec.get("command"),
        "arguments": spec.get("args"),
        "actionsSupport": {"delete": True, "suspend": True},
    }


def workload_detailed(workload: Workload) -> dict[str, Any]:
    """The answer to GET /workloads/ID."""
    why = workload.pending_reason
    message = {"nodePool": "default", "phaseReason": "OverLimit", "reason": why, "userMessage": why}
    return {**workload_of_any(workload), "pendingSchedulingMessages": [message] if why else None}


def pod_of(workload: Workload, pod: LabPod) -> dict[str, Any]:
    """An entry of GET /workloads/ID/pods: no exit code and no container's state are documented there."""
    return {
        "id": pod.id,
        "name": pod.name,
        "tenantId": TENANT,
        "workloadId": workload.id,
        "clusterId": workload.project.cluster,
        "projectId": workload.project.id,
        "priorityClassName": "train",
        "nodeName": pod.node,
        "createdAt": iso(pod.created),
        "completedAt": iso(pod.finished),
        "containers": [{"name": pod.container, "image": pod.image, "startedAt": iso(pod.started)}],
        "k8sPhase": "Failed" if pod.status_reason else pod.phase,
        "k8sPhaseUpdatedAt": iso(pod.finished or pod.started or pod.created),
        "updatedAt": iso(pod.finished or pod.started or pod.created),
        "currentNodePool": "default" if pod.node else None,
    }


def _whose(workload: Workload) -> dict[str, Any]:
    return {
        "id": workload.id,
        "name": workload.name,
        "tenantId": TENANT,
        "clusterId": workload.project.cluster,
        "projectId": workload.project.id,
        "projectName": workload.project.name,
        "departmentId": "1",
        "departmentName": "default",
        "namespace": workload.project.namespace,
        "submittedBy": USER,
    }


def _conditions(workload: Workload) -> list[dict[str, Any]]:
    def condition(kind: str, holds: bool) -> dict[str, Any]:
        found = {"type": kind, "status": "True" if holds else "False", "lastTransitionTime": iso(workload.changed)}
        return {**found, "message": workload.message} if holds and workload.message else found

    return [condition("Ready", workload.phase == "Running"), condition("Failed", workload.phase == "Failed")]
