"""Why a run:ai workload failed or does not start: its pods, events and conditions, joined with its log's end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from nemo_runspec.backends.cloud.diagnose import RETRIED, RETRIED_ELSEWHERE, case_of, event_messages, joined
from nemo_runspec.backends.dgxcloud.api import RunaiApi
from nemo_runspec.backends.dgxcloud.facts import (
    containers,
    detail_of,
    exit_code_of,
    gather,
    is_ailing,
    node_of,
    states_of,
)
from nemo_runspec.backends.dgxcloud.logs.unavailable import ways
from nemo_runspec.backends.provider import Handle
from nemo_runspec.diagnosis import engine
from nemo_runspec.diagnosis.causes import POD_KINDS, STARTED
from nemo_runspec.diagnosis.model import Message, Platform
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.records.record import is_over
from nemo_runspec.records.status import JobStatus
from nemo_runspec.transport.reading import table, tables

_NODE = f"{RETRIED_ELSEWHERE}tell those who run the cluster"

PLATFORM = Platform(
    "run:ai",
    {
        "image": "see container_image in the profile: its name and tag",
        "image login": "keep credentials for the registry in run:ai (Credentials, Docker registry) for the project; "
        "see that the image's name and tag are right: nemotron doctor PROFILE asks the registry",
        "capacity": "wait; ask for less (nodes, gpus_per_node); or take a project with a larger quota: nemotron "
        'dgxcloud projects; on_timeout = "stop" ends a job that waits for longer than queue_timeout',
        "eviction": f"{RETRIED}; within its quota a project's workloads are not taken",
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


def diagnose(api: RunaiApi, handle: Handle, status: JobStatus, log: bytes) -> Diagnosis | None:
    """The verdict on a job; None where nothing is wrong. At most four requests, any of which may fail.

    Args:
        log: the end of the logs of all its nodes, end markers included; empty where there is no way to them.
    """
    now, evidence = not is_over(status.state), gather(api, handle, status)
    case = case_of(PLATFORM, handle, status, log)
    messages = (*workload_messages(evidence.workload, now=now), *pod_messages(evidence.pods, now=now))
    found = engine.diagnose(
        replace(
            case,
            messages=tuple(dict.fromkeys(messages)),
            events=tuple(event_messages(evidence.events)),
            machines=(*case.machines, *filter(None, map(node_of, evidence.pods))),
            exit_code=exit_code_of(evidence),
            unasked=evidence.unasked,
            ailing=is_ailing(evidence.workload),
        )
    )
    if found is None or found.kind or log or not detail_of(status).uncoded or not ways(handle):
        return found
    shown = "" if STARTED.search(found.evidence) else found.evidence
    return replace(found, evidence=shown, remedy=f"to know it, and have logs here, set in the profile: {ways(handle)}")


def workload_messages(workload: Mapping[str, Any], *, now: bool) -> Iterator[Message]:
    """What a workload says of itself: why it is not scheduled, `phaseMessage`, and `conditions` with a reason."""
    pending = (joined(each, "reason", "userMessage") for each in tables(workload.get("pendingSchedulingMessages")))
    for text in (*pending, joined(workload, "phaseMessage"), joined(workload, "k8sPhaseMessage")):
        if text:
            yield Message(text, now=now)
    yield from _conditions(workload, now=now)


def pod_messages(pods: Iterable[Mapping[str, Any]], *, now: bool) -> Iterator[Message]:
    """What is wrong with pods, in the form of run:ai's API as in that of Kubernetes."""
    for pod in pods:
        status, node = table(pod.get("status")) or pod, node_of(pod)
        for text in (joined(status, "reason", "message"), joined(pod, "k8sPhaseMessage"), joined(pod, "phaseMessage")):
            if text:
                yield Message(text, node, now)
        yield from _conditions(status, now=now, node=node)
        for state in (state for container in containers(pod) for state in states_of(container)):
            yield from _container_message(state, node, now=now)


def _container_message(state: Mapping[str, Any], node: str, *, now: bool) -> Iterator[Message]:
    text, code = joined(state, "reason", "message"), state.get("exitCode")
    if text and (str(state.get("reason") or "").casefold() not in _MEANINGLESS or state.get("message")):
        yield Message(f"{text} (exit code {code})" if isinstance(code, int) and code else text, node, now)


def _conditions(thing: Mapping[str, Any], *, now: bool, node: str = "") -> Iterator[Message]:
    """Conditions with a reason or a message that hold; of those one wishes for (`Ready`), that do not hold."""
    for condition in tables(thing.get("conditions")):
        wished = _WISHED.search(str(condition.get("type"))) is not None
        if joined(condition, "reason", "message") and str(condition.get("status")) != str(wished):
            yield Message(joined(condition, "type", "reason", "message"), node, now)
