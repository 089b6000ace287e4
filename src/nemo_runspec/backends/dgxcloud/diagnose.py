"""Why a run:ai workload failed or does not start: its pods, events and conditions, joined with its log's end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nemo_runspec.backends.dgxcloud.api import RunaiApi
from nemo_runspec.backends.dgxcloud.facts import (
    containers,
    detail_of,
    exit_code_of,
    gather,
    is_ailing,
    states_of,
    table,
)
from nemo_runspec.backends.dgxcloud.logs.unavailable import ways
from nemo_runspec.backends.provider import Handle
from nemo_runspec.diagnosis import engine
from nemo_runspec.diagnosis.causes import POD_KINDS, STARTED
from nemo_runspec.diagnosis.deadlines import passed
from nemo_runspec.diagnosis.model import Case, Diagnosis, Message, Platform
from nemo_runspec.records.record import is_over
from nemo_runspec.records.status import JobStatus
from nemo_runspec.script.pod_marker import read_ends

_NODE = (
    "nemotron jobs retry starts it again; retries and avoid_failed_nodes in the profile do so by "
    "themselves; where it comes back, tell those who run the cluster"
)

PLATFORM = Platform(
    "run:ai",
    {
        "image": "see container_image in the profile: its name and tag",
        "image login": "keep credentials for the registry in run:ai (Credentials, Docker registry) for the project; "
        "see that the image's name and tag are right: nemotron doctor PROFILE asks the registry",
        "capacity": "wait; ask for less (nodes, gpus_per_node); or take a project with a larger quota: nemotron "
        'dgxcloud projects; on_timeout = "stop" ends a job that waits for longer than queue_timeout',
        "eviction": "nemotron jobs retry starts it again, retries in the profile does so by itself; within its quota "
        "a project's workloads are not taken",
        "node": _NODE,
        "storage": "see pvcs in the profile: nemotron dgxcloud pvcs",
        "credentials": "see secret_vars in the profile: the credential must be in run:ai, and for this project",
    },
    POD_KINDS,
    {"bad GPU": _NODE},
)

_MEANINGLESS = frozenset({"", "completed", "error", "containercreating", "podinitializing", "running"})
"""Words of a container that say no more than its exit code, or nothing."""

_WISHED = re.compile(r"Ready|Scheduled|Initialized|Available|Complete|Succeeded|Running|Created")
"""Conditions that are good ones where they hold."""


def diagnose(api: RunaiApi, handle: Handle, seen: JobStatus, log_tail: bytes) -> Diagnosis | None:
    """The verdict on a job; None where nothing is wrong. At most four requests, any of which may fail.

    Args:
        log_tail: the end of the logs of all its nodes, end markers included; empty where there is no way to them.
    """
    found = engine.diagnose(case_of(api, handle, seen, log_tail))
    if found is None or found.kind or log_tail or not detail_of(seen).uncoded or not ways(handle):
        return found
    evidence = "" if STARTED.search(found.evidence) else found.evidence
    return replace(
        found, evidence=evidence, remedy=f"to know it, and have logs here, set in the profile: {ways(handle)}"
    )


def case_of(api: RunaiApi, handle: Handle, seen: JobStatus, log_tail: bytes) -> Case:
    """All that run:ai and its cluster say of a job, joined with what is known already."""
    over, found = is_over(seen.state), gather(api, handle, seen)
    words = (*workload_messages(found.workload, now=not over), *pod_messages(found.pods, now=not over))
    return Case(
        state=seen.state,
        platform=PLATFORM,
        reason=seen.reason,
        deadline=passed(seen),
        messages=tuple(dict.fromkeys(words)),
        events=tuple(event_messages(found.events)),
        markers=tuple(read_ends(log_tail).values()),
        tail=log_tail,
        exit_code=exit_code_of(found),
        unasked=found.unasked,
        ailing=is_ailing(found.workload),
    )


def workload_messages(workload: Mapping[str, Any], *, now: bool) -> Iterator[Message]:
    """What a workload says of itself: why it is not scheduled, `phaseMessage`, and `conditions` with a reason."""
    pending = workload.get("pendingSchedulingMessages")
    for message in pending if isinstance(pending, list) else ():
        if said := _said(table(message), "reason", "userMessage"):
            yield Message(said, now=now)
    for key in ("phaseMessage", "k8sPhaseMessage"):
        if said := _said(workload, key):
            yield Message(said, now=now)
    yield from _conditions(workload, now=now)


def pod_messages(pods: Iterable[Mapping[str, Any]], *, now: bool) -> Iterator[Message]:
    """What is wrong with pods, in the form of run:ai's API as in that of Kubernetes."""
    for pod in pods:
        status = table(pod.get("status")) or pod
        node = node_of(pod)
        for said in (_said(status, "reason", "message"), _said(pod, "k8sPhaseMessage"), _said(pod, "phaseMessage")):
            if said:
                yield Message(said, node, now)
        yield from _conditions(status, now=now, node=node)
        for container in containers(pod):
            yield from _container_messages(container, node, now=now)


def event_messages(events: Sequence[Mapping[str, Any]]) -> Iterator[Message]:
    """What was written down, the oldest first."""
    for event in sorted(events, key=lambda each: str(each.get("createdAt") or each.get("lastTimestamp") or "")):
        about = table(event.get("involvedObject"))
        said = _said(event, "reason", "message")
        if said:
            yield Message(said, str(about.get("name") or "") if about.get("kind") == "Node" else "")


def node_of(pod: Mapping[str, Any]) -> str:
    """The machine that a pod is on, '' where that is not said."""
    return str(pod.get("nodeName") or table(pod.get("spec")).get("nodeName") or "")


def _container_messages(container: Mapping[str, Any], node: str, *, now: bool) -> Iterator[Message]:
    for state in states_of(container):
        reason = str(state.get("reason") or "")
        said = _said(state, "reason", "message")
        if said and (reason.casefold() not in _MEANINGLESS or state.get("message")):
            code = state.get("exitCode")
            yield Message(f"{said} (exit code {code})" if isinstance(code, int) and code else said, node, now)


def _conditions(thing: Mapping[str, Any], *, now: bool, node: str = "") -> Iterator[Message]:
    """Conditions with a reason or a message that hold; of those one wishes for (`Ready`), that do not hold."""
    found = thing.get("conditions")
    for condition in found if isinstance(found, list) else ():
        if not isinstance(condition, dict) or not (condition.get("reason") or condition.get("message")):
            continue
        wished = _WISHED.search(str(condition.get("type"))) is not None
        if str(condition.get("status")) != str(wished):
            yield Message(_said(condition, "type", "reason", "message"), node, now)


def _said(thing: Mapping[str, Any], *keys: str) -> str:
    """`reason: message`, of what there is of them as text."""
    return ": ".join(
        dict.fromkeys(thing[key].strip() for key in keys if isinstance(thing.get(key), str) and thing[key])
    )
