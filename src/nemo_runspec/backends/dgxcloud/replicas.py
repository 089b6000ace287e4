"""What run:ai tells of a job's pods and events, for a person."""

from __future__ import annotations

from collections.abc import Mapping

from nemo_runspec.backends.cloud.renewal import unless_missing
from nemo_runspec.backends.dgxcloud.api import Row, RunaiApi
from nemo_runspec.backends.dgxcloud.pods import Pod, pods_of
from nemo_runspec.backends.provider import Event, Handle, Replica
from nemo_runspec.diagnosis.pulls import names_cause
from nemo_runspec.transport.reading import moment, table, text

_WAITING: Mapping[str, str] = {
    "Pending": "not running yet",
    "Failed": "failed",
    "Unknown": "its machine does not answer",
}
"""Kubernetes' phases of a pod that are a problem."""


def replicas_of(api: RunaiApi, handle: Handle) -> list[Replica]:
    """The pods of a job, by their ranks, each with the last warning about it. Two requests."""
    if not handle.get("id"):
        return []
    warnings = _warnings(_events(api, handle))
    return [_replica(pod, warnings.get(pod.name)) for pod in pods_of(api, str(handle["id"]))]


def events_of(api: RunaiApi, handle: Handle) -> list[Event]:
    """What the cluster has written down about a job, the oldest first. One request per 500 of them."""
    if not handle.get("id"):
        return []
    return [_event(row) for row in _oldest_first(_events(api, handle))]


def _events(api: RunaiApi, handle: Handle) -> list[Row]:
    """What the cluster has written down; nothing of a workload that run:ai has no more."""
    return unless_missing(api.events, str(handle["id"])) or []


def _oldest_first(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (text(row.get("createdAt")), text(row.get("id"))))


def _event(row: Row) -> Event:
    about = table(row.get("involvedObject"))
    return Event(
        moment(row.get("createdAt")),
        text(row.get("type")) or "Normal",
        text(row.get("reason")),
        text(row.get("message")),
        f"{text(about.get('kind'))} {text(about.get('name'))}".strip(),
    )


def _warnings(rows: list[Row]) -> dict[str, Row]:
    """The newest warning about each object, by its name; before one that names no cause an older one that does."""
    warned = [row for row in _oldest_first(rows) if row.get("type") == "Warning"]
    warned.sort(key=lambda row: names_cause(text(row.get("message"))))
    return {text(table(row.get("involvedObject")).get("name")): row for row in warned}


def _replica(pod: Pod, warning: Row | None) -> Replica:
    problem = _WAITING.get(pod.phase, "")
    message = text(warning.get("message")) if warning and problem else ""
    if warning and problem:
        problem = f"{problem}: {text(warning.get('reason'))}"
    return Replica(pod.name, pod.index, pod.node, pod.phase, message, problem)
