"""The pods of a job: where they are, and in words why they do not run yet."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from nemo_runspec.backends.lepton.api import LeptonApi, id_of, section
from nemo_runspec.backends.provider import Event, Replica
from nemo_runspec.diagnosis.pulls import may_pass
from nemo_runspec.transport.reading import count, moment, number, text

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

_MESSAGES = (
    (re.compile(r"fail\w* to pull|pull.*(fail|denied|back ?-?off|error|unauthorized|40[134])|"
                r"ImagePullBackOff|ErrImagePull", re.I),
     _PULL_FAILED),
    (re.compile(r"\bpulling\b|image pull", re.I), _PULLING),
    (re.compile(r"mount point|FailedMount|mount.*fail", re.I), "its storage cannot be mounted"),
    (re.compile(r"\binsufficient\b|\bno (?:available |free |idle )?nodes?\b|\bunschedulable\b", re.I), _NO_CAPACITY),
)  # fmt: skip
"""What is more exact than the reason, where the message says it; the first that fits."""

_ON_THE_WAY = (_PULLING, _STARTING, _QUEUED)

_ENDED = (_PLATFORM_ENDED, _DELETING, _DELETED)

_DIGITS = 10
"""Of a rank: no job has so many pods."""

_INDEX = re.compile(r"-(\d+)-[a-z0-9]+$")
_PULL_PROBLEMS = (_PULLING, _PULL_FAILED)
_QUEUE_PROBLEMS = (_NO_CAPACITY, _QUEUED)


def replicas_of(api: LeptonApi, id: str) -> list[Replica]:
    """The pods of a job, by their index; those of one index in the order of the platform."""
    found = [read_replica(each, id) for each in api.replicas(id)]
    return sorted(found, key=lambda replica: (replica.index is None, replica.index or 0))


def read_replica(told: Mapping[str, Any], job: str) -> Replica:
    """One pod, out of what the platform says about it."""
    id = id_of(told)
    status = section(told, "status")
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
    first = next(replica for replica in troubled if replica.problem == commonest)
    many = f" ({problems.count(commonest)} of {len(replicas)} nodes)" if len(replicas) > 1 else ""
    # What is only on its way is said in full by its own words; of a trouble, the platform's words are the news.
    said = f": {first.message}" if first.message and first.message.lower() not in commonest.lower() else ""
    return f"{commonest}{many}{'' if commonest in _ON_THE_WAY else said}"


def phase_of(replicas: Sequence[Replica], otherwise: str) -> str:
    """The deadline that counts for a job that starts: `pull`, `queue` or `start`."""
    problems = {replica.problem for replica in replicas}
    if problems & set(_PULL_PROBLEMS):
        return "pull"
    if problems & set(_QUEUE_PROBLEMS) and not any(replica.node for replica in replicas):
        return "queue"
    return otherwise


def is_to_start(replicas: Sequence[Replica]) -> bool:
    """Whether one of them has not run yet, by what the platform says of it."""
    return any(replica.problem and replica.problem not in _ENDED for replica in replicas)


def is_failing(replicas: Sequence[Replica]) -> bool:
    """Whether the platform says of a pod that its image was asked for and refused, as it will be again."""
    refused = (each for each in replicas if each.problem == _PULL_FAILED)
    return any(not may_pass(each.message) for each in refused)


def out_of_memory(replicas: Sequence[Replica]) -> bool:
    """Whether the platform says that the kernel has killed something of a pod for want of memory."""
    from nemo_runspec.diagnosis.causes import says_killed_for_memory

    return any(says_killed_for_memory(f"{each.state}: {each.message}") for each in replicas)


def is_lost(replica: Replica) -> bool:
    """Whether the platform took a pod away, or its node: it could say no last word. One out of memory mostly can."""
    return replica.state == "SystemError" and not out_of_memory([replica])


def read_event(told: Mapping[str, Any]) -> Event:
    """One event, out of what the platform says about it."""
    about = section(told, "regarding")
    return Event(
        time=moment(told.get("last_observed_time")),
        kind=text(told.get("type")) or "Normal",
        reason=text(told.get("reason")),
        message=text(told.get("message")) or text(told.get("note")),
        about="/".join(filter(None, (text(about.get(key)) for key in ("kind", "name")))),
        count=count(told.get("count")) or 1,
    )


def _issue(told: Any) -> tuple[str, str]:
    """Reason and message of what keeps a pod from being ready: one table, or a list whose last is the newest."""
    issue = told[-1] if isinstance(told, list) and told else told
    if not isinstance(issue, Mapping):
        return "", ""
    return text(issue.get("reason")), " ".join(text(issue.get("message")).split())


def _problem(reason: str, message: str) -> str:
    if reason in _READY:
        return ""
    exact = next((words for pattern, words in _MESSAGES if pattern.search(f"{reason} {message}")), None)
    if exact == _PULLING and reason == "Failed":
        return _PULL_FAILED
    return exact or _REASONS.get(reason, reason)


def _index(id: str, job: str) -> int | None:
    """The rank in `<job>-<index>-<random>`."""
    rest = id.removeprefix(job) if job and id.startswith(f"{job}-") else id
    match = _INDEX.search(rest)
    return int(match[1]) if match and len(match[1]) < _DIGITS else None
