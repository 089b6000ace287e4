"""The pods of a job: where they are, and in words why they do not run yet."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from nemo_runspec.backends.lepton.api import LeptonApi, id_of, section
from nemo_runspec.backends.provider import Event, Replica
from nemo_runspec.diagnosis.phrases import MOUNT_FAILED, NO_ROOM, PULL_FAILED, UNAUTHORIZED, first_in
from nemo_runspec.diagnosis.pulls import may_pass
from nemo_runspec.transport.reading import count, moment, number, table, text

_PULLING = "pulling the image"
_PULL_FAILED = "the image cannot be pulled"
_NO_CAPACITY = "no capacity"
_QUEUED = "waiting for nodes"
_STARTING = "starting"
_PLATFORM_ENDED = "the platform has ended it"
_DELETING = "being deleted"
_DELETED = "deleted"
"""What keeps a pod from running, as `Replica.problem` says it."""

_READY = frozenset({"", "Ready"})

_REASONS: Mapping[str, str] = {
    "InProgress": _STARTING,
    "NoCapacity": _NO_CAPACITY,
    "Queueing": _QUEUED,
    "ConfigError": "its node cannot run it",
    "SystemError": _PLATFORM_ENDED,
    "RequireReadinessApproval": "waits for somebody's approval",
    "Deleting": _DELETING,
    "Deleted": _DELETED,
    "Failed": "it cannot be started",
}
"""Reasons of Lepton's `readiness_issue`, in our words; one that is not here is shown as it is."""

_MESSAGES: Mapping[str, str] = {
    rf"{PULL_FAILED}|pull.*(?:fail|error|denied|back ?-?off|{UNAUTHORIZED}|\b404\b)": _PULL_FAILED,
    r"\bpulling\b|image pull": _PULLING,
    rf"{MOUNT_FAILED}|mount.*fail": "its storage cannot be mounted",
    rf"{NO_ROOM}|\bno nodes?\b": _NO_CAPACITY,
}
"""What is more exact than the reason, where the message says it; the first that fits."""

_ON_THE_WAY = (_PULLING, _STARTING, _QUEUED)

_ENDED = (_PLATFORM_ENDED, _DELETING, _DELETED)

_INDEX = re.compile(r"-(\d{1,9})-[a-z0-9]+$")
_PULL_PROBLEMS = (_PULLING, _PULL_FAILED)
_QUEUE_PROBLEMS = (_NO_CAPACITY, _QUEUED)


def replicas_of(api: LeptonApi, id: str) -> list[Replica]:
    """The pods of a job, by their index; those of one index in the order of the platform."""
    found = [read_replica(each, id) for each in api.replicas(id)]
    return sorted(found, key=lambda replica: (replica.index is None, replica.index or 0))


def read_replica(row: Mapping[str, Any], job: str) -> Replica:
    """One pod, as the platform lists it."""
    id, status = id_of(row), section(row, "status")
    node = section(status, "node")
    reason, message = _issue(status.get("readiness_issue"))
    return Replica(
        id=id,
        index=_index(id, job),
        node=text(node.get("name")) or text(node.get("id")),
        state=reason or "Ready",
        message=message,
        problem=_problem(reason, message),
        group=text(node.get("node_group_id")),
        cpus=number(status.get("cpu")),
        memory_mb=count(status.get("memory_in_mb")),
    )


def waiting_of(replicas: Sequence[Replica]) -> str:
    """Why a job waits, in words: its commonest problem, with how many of its pods have it."""
    troubled = [replica for replica in replicas if replica.problem]
    if not troubled:
        return ""
    problems = [replica.problem for replica in troubled]
    commonest = max(dict.fromkeys(problems), key=problems.count)
    many = f" ({problems.count(commonest)} of {len(replicas)} nodes)" if len(replicas) > 1 else ""
    message = troubled[problems.index(commonest)].message
    if commonest in _ON_THE_WAY or not message or message.lower() in commonest.lower():
        return f"{commonest}{many}"  # of a trouble, the platform's words are the news
    return f"{commonest}{many}: {message}"


def phase_of(replicas: Sequence[Replica], otherwise: str) -> str:
    """The deadline that counts for a job that starts: `pull`, `queue` or `start`."""
    problems = {replica.problem for replica in replicas}
    if problems & set(_PULL_PROBLEMS):
        return "pull"
    if problems & set(_QUEUE_PROBLEMS) and not any(replica.node for replica in replicas):
        return "queue"
    return otherwise


def is_to_start(replicas: Sequence[Replica]) -> bool:
    """True if one of them has not run yet, by what the platform says of it."""
    return any(replica.problem and replica.problem not in _ENDED for replica in replicas)


def is_failing(replicas: Sequence[Replica]) -> bool:
    """True if the platform says of a pod that its image was asked for and refused, as it will be again."""
    refused = (each for each in replicas if each.problem == _PULL_FAILED)
    return any(not may_pass(each.message) for each in refused)


def out_of_memory(replicas: Sequence[Replica]) -> bool:
    """True if the platform says that the kernel has killed something of a pod for want of memory."""
    from nemo_runspec.diagnosis.causes import says_killed_for_memory

    return any(says_killed_for_memory(f"{each.state}: {each.message}") for each in replicas)


def is_lost(replica: Replica) -> bool:
    """True if the platform took a pod away, or its node: it could say no last word. One out of memory mostly can."""
    return replica.state == "SystemError" and not out_of_memory([replica])


def events_of(api: LeptonApi, id: str) -> list[Event]:
    """What the platform has written down about a job, the oldest first. One request."""
    return sorted(map(read_event, api.events(id)), key=lambda event: event.time or 0.0)


def read_event(row: Mapping[str, Any]) -> Event:
    """One event, as the platform lists it."""
    about = section(row, "regarding")
    return Event(
        time=moment(row.get("last_observed_time")),
        kind=text(row.get("type")) or "Normal",
        reason=text(row.get("reason")),
        message=text(row.get("message")) or text(row.get("note")),
        about="/".join(filter(None, (text(about.get("kind")), text(about.get("name"))))),
        count=count(row.get("count")) or 1,
    )


def _issue(issues: Any) -> tuple[str, str]:
    """Reason and message of what keeps a pod from being ready: one table, or a list whose last is the newest."""
    issue = table(issues[-1] if isinstance(issues, list) and issues else issues)
    return text(issue.get("reason")), " ".join(text(issue.get("message")).split())


def _problem(reason: str, message: str) -> str:
    if reason in _READY:
        return ""
    exact = first_in(f"{reason} {message}", _MESSAGES)
    if exact == _PULLING and reason == "Failed":
        return _PULL_FAILED
    return exact or _REASONS.get(reason, reason)


def _index(id: str, job: str) -> int | None:
    """The rank in `<job>-<index>-<random>`."""
    match = _INDEX.search(id.removeprefix(job) if job and id.startswith(f"{job}-") else id)
    return int(match[1]) if match else None
