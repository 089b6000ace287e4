"""Why a run:ai workload failed or does not start: its pods, events and conditions, joined with its log's end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from nemo_runspec.backends.dgxcloud.api import TRAININGS, Row, RunaiApi
from nemo_runspec.cloud.asking import Asking
from nemo_runspec.cloud.marker import read_ends
from nemo_runspec.cloud.meanings import Advice
from nemo_runspec.cloud.verdicts import Case, Word
from nemo_runspec.cloud.verdicts import diagnose as verdict_on
from nemo_runspec.jobs.record import is_over
from nemo_runspec.remote.provider import Diagnosis, Handle, Seen

ADVICE = Advice(
    "run:ai",
    {
        "image": "see container_image in the profile: its name and tag",
        "image login": "keep credentials for the registry in run:ai (Credentials, Docker registry) for the project; "
        "see that the image's name and tag are right: nemotron doctor PROFILE asks the registry",
        "capacity": "wait; ask for less (nodes, gpus_per_node); or take a project with a larger quota: nemotron "
        'dgxcloud projects; on_timeout = "stop" ends a job that waits for longer than queue_timeout',
        "eviction": "nemotron jobs retry starts it again, retries in the profile does so by itself; within its quota "
        "a project's workloads are not taken",
        "node": "nemotron jobs retry starts it again; retries and avoid_failed_nodes in the profile do so by "
        "themselves; where it comes back, tell those who run the cluster",
        "storage": "see pvcs in the profile: nemotron dgxcloud pvcs",
        "credentials": "see secret_vars in the profile: the credential must be in run:ai, and for this project",
    },
)

_MEANINGLESS = frozenset({"", "completed", "error", "containercreating", "podinitializing", "running"})
"""Words of a container that say no more than its exit code, or nothing."""

_EXITED = re.compile(r"exit(?:ed with)? code:? (\d+)", re.IGNORECASE)
"""How events of Kubeflow's operator and of the kubelet name a container's exit code."""

_WISHED = re.compile(r"Ready|Scheduled|Initialized|Available|Complete|Succeeded|Running|Created")
"""Conditions that are good ones where they hold."""


def diagnose(api: RunaiApi, handle: Handle, seen: Seen, log_tail: bytes) -> Diagnosis | None:
    """The verdict on a job; None where nothing is wrong. At most four requests, any of which may fail.

    Args:
        log_tail: the end of the logs of all its nodes, end markers included; empty where there is no way to them.
    """
    return verdict_on(case_of(api, handle, seen, log_tail))


def case_of(api: RunaiApi, handle: Handle, seen: Seen, log_tail: bytes) -> Case:
    """All that run:ai and its cluster say of a job, joined with what is known already."""
    id, over = str(handle.get("id") or ""), is_over(seen.state)
    asking = Asking()
    workload = _workload(asking, api, handle, seen) if id else {}
    pods = (asking.of("pods", api.pods, id) or []) if id else []
    events = asking.of("events", api.events, id) if id and seen.state != "running" else []
    pods = [*_kube_pods(asking, api, workload, handle, pods), *pods]
    words = (*workload_words(workload, now=not over), *pod_words(pods, now=not over))
    return Case(
        state=seen.state,
        advice=ADVICE,
        reason=" ".join(filter(None, (seen.reason, str(seen.facts.get("overdue") or "")))),
        replicas=tuple(dict.fromkeys(words)),
        events=tuple(event_words(events or ())),
        ends=tuple(read_ends(log_tail).values()),
        tail=log_tail,
        exit_code=exit_code_of(pods, events or ()),
        unasked=tuple(asking.unanswered),
    )


def workload_words(workload: Mapping[str, Any], *, now: bool) -> Iterator[Word]:
    """What a workload says of itself: why it is not scheduled, `phaseMessage`, and `conditions` with a reason."""
    pending = workload.get("pendingSchedulingMessages")
    for message in pending if isinstance(pending, list) else ():
        if said := _said(_table(message), "reason", "userMessage"):
            yield Word(said, now=now)
    for key in ("phaseMessage", "k8sPhaseMessage"):
        if said := _said(workload, key):
            yield Word(said, now=now)
    yield from _conditions(workload, now=now)


def pod_words(pods: Iterable[Mapping[str, Any]], *, now: bool) -> Iterator[Word]:
    """What is wrong with pods, in the form of run:ai's API as in that of Kubernetes."""
    for pod in pods:
        status = _table(pod.get("status")) or pod
        node = node_of(pod)
        for said in (_said(status, "reason", "message"), _said(pod, "k8sPhaseMessage"), _said(pod, "phaseMessage")):
            if said:
                yield Word(said, node, now)
        yield from _conditions(status, now=now, node=node)
        for container in _containers(pod):
            yield from _container_words(container, node, now=now)


def event_words(events: Sequence[Mapping[str, Any]]) -> Iterator[Word]:
    """What was written down, the oldest first."""
    for event in sorted(events, key=lambda each: str(each.get("createdAt") or each.get("lastTimestamp") or "")):
        about = _table(event.get("involvedObject"))
        said = _said(event, "reason", "message")
        if said:
            yield Word(said, str(about.get("name") or "") if about.get("kind") == "Node" else "")


def exit_code_of(pods: Iterable[Mapping[str, Any]], events: Iterable[Mapping[str, Any]]) -> int | None:
    """The first exit code of a container that is not 0, by its state or an event; None where none is said."""
    states = [state for pod in pods for container in _containers(pod) for state in _states(container)]
    codes = [state["exitCode"] for state in states if isinstance(state.get("exitCode"), int)]
    said = (_EXITED.search(str(event.get("message"))) for event in events)
    codes += [int(match[1]) for match in said if match]
    return next((code for code in codes if code), None)


def node_of(pod: Mapping[str, Any]) -> str:
    """The machine that a pod is on, '' where that is not said."""
    return str(pod.get("nodeName") or _table(pod.get("spec")).get("nodeName") or "")


def _workload(asking: Asking, api: RunaiApi, handle: Handle, seen: Seen) -> Row:
    """The workload as it was just seen, else asked for."""
    if isinstance(seen.detail, dict):
        return seen.detail
    return asking.of("workload", api.workload, str(handle.get("kind") or TRAININGS), str(handle["id"])) or {}


def _kube_pods(
    asking: Asking, api: RunaiApi, workload: Mapping[str, Any], handle: Handle, pods: Iterable[Mapping[str, Any]]
) -> list[Row]:
    """The same pods as the cluster describes them, where the profile names it: it says why a container ended."""
    names = {str(pod.get("name")) for pod in pods}
    if api.kube is None or not names:
        return []
    # `runai-PROJECT` unless an administrator chose another.
    namespace = str(workload.get("namespace") or f"runai-{handle.get('project')}")
    found = asking.of("pods in the cluster", api.kube_pods, namespace)
    return [pod for pod in found or () if _table(pod.get("metadata")).get("name") in names]


def _container_words(container: Mapping[str, Any], node: str, *, now: bool) -> Iterator[Word]:
    for state in _states(container):
        reason = str(state.get("reason") or "")
        said = _said(state, "reason", "message")
        if said and (reason.casefold() not in _MEANINGLESS or state.get("message")):
            code = state.get("exitCode")
            yield Word(f"{said} (exit code {code})" if isinstance(code, int) and code else said, node, now)


def _containers(pod: Mapping[str, Any]) -> list[Row]:
    status = _table(pod.get("status"))
    listed = [status.get("initContainerStatuses"), status.get("containerStatuses"), pod.get("containers")]
    return [each for part in listed if isinstance(part, list) for each in part if isinstance(each, dict)]


def _states(container: Mapping[str, Any]) -> Iterator[Row]:
    """Each state of a container: Kubernetes nests it, run:ai may not."""
    for key in ("state", "lastState"):
        for state in _table(container.get(key)).values():
            if isinstance(state, dict):
                yield state
    if any(key in container for key in ("reason", "exitCode")):
        yield dict(container)


def _conditions(thing: Mapping[str, Any], *, now: bool, node: str = "") -> Iterator[Word]:
    """Conditions with a reason or a message that hold; of those one wishes for (`Ready`), that do not hold."""
    found = thing.get("conditions")
    for condition in found if isinstance(found, list) else ():
        if not isinstance(condition, dict) or not (condition.get("reason") or condition.get("message")):
            continue
        wished = _WISHED.search(str(condition.get("type"))) is not None
        if str(condition.get("status")) != str(wished):
            yield Word(_said(condition, "type", "reason", "message"), node, now)


def _said(thing: Mapping[str, Any], *keys: str) -> str:
    """`reason: message`, of what there is of them as text."""
    return ": ".join(
        dict.fromkeys(thing[key].strip() for key in keys if isinstance(thing.get(key), str) and thing[key])
    )


def _table(value: Any) -> Row:
    return value if isinstance(value, dict) else {}
