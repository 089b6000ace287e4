"""A workload's pods, its events and its history: which node of the job each pod is, where it runs, how it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nemo_runspec.backends.cloud.api import JsonTable
from nemo_runspec.backends.cloud.optional_requests import OptionalRequests
from nemo_runspec.backends.cloud.renewal import unless_missing
from nemo_runspec.backends.dgxcloud.api import RunaiApi
from nemo_runspec.backends.provider import Event, Handle, Replica
from nemo_runspec.diagnosis.pulls import names_cause
from nemo_runspec.transport.reading import moment, table, tables, text

_ROLE = re.compile(r"-(master|worker|launcher)-(\d+)$")
"""How Kubeflow names the pods of a distributed workload."""

_DIGITS = 9
"""Of a rank: no workload has so many pods."""

_PROBLEMS: Mapping[str, str] = {
    "Pending": "not running yet",
    "Failed": "failed",
    "Unknown": "its machine does not answer",
}
"""Kubernetes' phases of a pod that are a problem."""

HISTORY = "history"


@dataclass(frozen=True, slots=True)
class Pod(Replica):
    """A pod, by Kubernetes' phase as its state. `container`: by whose name its log is asked for."""

    container: str = ""


def pods_of(api: RunaiApi, id: str) -> list[Pod]:
    """The pods of a workload by their ranks; none of one that run:ai has no more. One request."""
    found = [pod for row in unless_missing(api.pods, id) or () if (pod := _pod(row)).id]
    return sorted(found, key=lambda pod: (pod.index or 0, pod.id))


def namespace_of(handle: Handle, workload: Mapping[str, Any] | None = None) -> str:
    """The namespace of a job's pods: as run:ai says of its project or its workload, else as run:ai names them."""
    named = text(handle.get("namespace")) or text((workload or {}).get("namespace"))
    return str(named or f"runai-{handle.get('project')}")


def rank_of(name: str) -> int:
    """A pod's rank by its name: the master is the first, workers follow; the only pod of a training is the first."""
    role = _ROLE.search(name)
    if role is None or role[1] == "master":
        return 0
    return int(role[2][:_DIGITS]) + 1


def replicas_of(api: RunaiApi, id: str) -> list[Replica]:
    """The pods of a workload by their ranks, each with the last warning about it. Two requests."""
    newest = {warning.about.rpartition(" ")[2]: warning for warning in warnings_of(events_of(api, id))}
    return [_with_warning(pod, newest.get(pod.id)) for pod in pods_of(api, id)]


def events_of(api: RunaiApi, id: str) -> list[Event]:
    """What the cluster has written down about a workload, the oldest first; nothing where run:ai has it no more."""
    rows = unless_missing(api.events, id) or ()
    return list(map(read_event, sorted(rows, key=lambda row: (text(row.get("createdAt")), text(row.get("id"))))))


def newest_events(api: RunaiApi, id: str) -> list[Event]:
    """The same in run:ai's own order, the newest first, even of one second. One request per 500 of them."""
    return list(map(read_event, api.events(id)))


def read_event(row: JsonTable) -> Event:
    """One event, as run:ai lists it."""
    about = table(row.get("involvedObject"))
    return Event(
        moment(row.get("createdAt") or row.get("lastTimestamp")),
        text(row.get("type")) or "Normal",
        text(row.get("reason")),
        text(row.get("message")),
        f"{text(about.get('kind'))} {text(about.get('name'))}".strip(),
    )


def warnings_of(events: Iterable[Event]) -> list[Event]:
    """The warnings among events, which are the oldest first; those that name no cause before all others."""
    return sorted((event for event in events if event.kind == "Warning"), key=lambda event: names_cause(event.message))


def began(api: RunaiApi, requests: OptionalRequests, id: str) -> float | None:
    """When the first of a workload's containers started, seconds since 1970; None of one that never ran. One request.

    `spec.event` and `spec.phaseUpdate` of `GET /workloads/ID/history` of run:ai's API, 2.24.
    """
    times = (_ran_at(record) for record in requests.rows(HISTORY, api.history, id))
    return min((time for time in times if time is not None), default=None)


def never_ran(api: RunaiApi, requests: OptionalRequests, id: str) -> bool:
    """True if a workload is known not to have run. One request; without a history of it that is not known."""
    records = requests.rows(HISTORY, api.history, id)
    return bool(records) and all(_ran_at(record) is None for record in records)


def _pod(row: JsonTable) -> Pod:
    name, phase = text(row.get("name")), text(row.get("k8sPhase"))
    container = next((text(each.get("name")) for each in tables(row.get("containers"))), "")
    node = text(row.get("nodeName"))
    return Pod(name, rank_of(name), node, phase, problem=_PROBLEMS.get(phase, ""), container=container)


def _with_warning(pod: Pod, warning: Event | None) -> Pod:
    if warning is None or not pod.problem:
        return pod
    return replace(pod, message=warning.message, problem=f"{pod.problem}: {warning.reason}")


def _ran_at(record: JsonTable) -> float | None:
    """When a record was made, where it says that something ran."""
    spec, meta = table(record.get("spec")), table(record.get("meta"))
    phase = table(spec.get("phaseUpdate")).get("phase")
    ran = phase == "Running" or table(spec.get("event")).get("reason") == "Started"
    return moment(meta.get("creationTimestamp") or meta.get("createdAt")) if ran else None
