"""Why a workload waits, and which of its deadlines runs: in run:ai's words where it has any, else in the cluster's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nemo_runspec.backends.cloud.api import JsonTable
from nemo_runspec.backends.cloud.optional_requests import OptionalRequests
from nemo_runspec.backends.cloud.states import StateMapping
from nemo_runspec.backends.cloud.status import JobProgress, nodes_of
from nemo_runspec.backends.dgxcloud.api import RunaiApi
from nemo_runspec.backends.dgxcloud.pods import Pod, newest_events, pods_of, warnings_of
from nemo_runspec.backends.dgxcloud.states import PLACED
from nemo_runspec.backends.provider import Event
from nemo_runspec.diagnosis.pulls import may_pass, names_cause
from nemo_runspec.transport.reading import table, tables, text, whole

PODS, EVENTS = "pods", "events"
"""What is asked for beside a workload itself."""

_MESSAGE_KEYS = ("userMessage", "reason", "phaseReason")
"""Keys of a message on why a workload waits, the best first."""

_PHASE_AFTER: Mapping[str, str] = {
    "Pulling": "pull", "ErrImagePull": "pull", "ImagePullBackOff": "pull", "InspectFailed": "pull",
    "Pulled": "start", "Created": "start", "Started": "start", "FailedMount": "start", "FailedAttachVolume": "start",
    "FailedCreatePodSandBox": "start",
}  # fmt: skip
"""Reasons of Kubernetes' events, and which deadline runs after one."""

_OF_IMAGE_OR_CONTAINER = frozenset({"Failed", "BackOff"})
"""Reasons that the kubelet gives of images as of containers: their message tells which is meant."""

_PLACED = "Scheduled"
"""The first event of a pod that has got a node: what is older was of its queue, or of another pod of this name."""


def progress_of(
    api: RunaiApi, requests: OptionalRequests, row: JsonTable, known: StateMapping, *, brief: bool = False
) -> JobProgress:
    """Why a workload waits. Two requests where run:ai itself does not say, and for one that is starting.

    Args:
        brief: of one that has no nodes yet nothing more is asked.
    """
    why, starting, id = _scheduling(row), known.state == "starting", text(row.get("id"))
    if why and not starting:
        return JobProgress(known, why)
    pods = requests.rows(PODS, pods_of, api, id)
    placed, nodes = _all_placed(row, pods), nodes_of(pods)
    if brief and not placed and not starting:
        return JobProgress(known, why)
    events = _current(requests.rows(EVENTS, newest_events, api, id))
    if requests.why_missing(PODS, EVENTS):
        return unasked(row, known)
    why = why or next((f"{warning.reason}: {warning.message}" for warning in reversed(warnings_of(events))), "")
    if not placed and not starting:
        return JobProgress(known, why, nodes=nodes)
    phases = {event.about: _phase_after(event) for event in events if _phase_after(event)}  # by the newest of each pod
    pulling = [pod for pod, phase in phases.items() if phase == "pull"]
    phase = "pull" if pulling or not phases else "start"  # as long as one pulls its image, the others wait for it
    failing = any(_is_failing([event for event in events if event.about == pod]) for pod in pulling)
    return JobProgress(PLACED if placed and not starting else known, why, phase, nodes, failing)


def unasked(row: JsonTable, known: StateMapping) -> JobProgress:
    """The same without a request: of one that is starting it is not known what it waits for."""
    return JobProgress(known, _scheduling(row), None if known.state == "starting" else "")


def _scheduling(row: JsonTable) -> str:
    messages = (text(each.get(key)) for each in tables(row.get("pendingSchedulingMessages")) for key in _MESSAGE_KEYS)
    return next(filter(None, messages), "")


def _all_placed(row: JsonTable, pods: Sequence[Pod]) -> bool:
    number = whole(table(row.get("requestedPods")).get("number"))
    return bool(pods) and len(pods) >= (1 if number is None else number) and all(pod.node for pod in pods)


def _current(events: Iterable[Event]) -> list[Event]:
    """The oldest first, of each pod those since it has got its node. Times may be of whole seconds."""
    found: list[Event] = []
    placed: set[str] = set()
    for event in sorted(events, key=lambda each: (each.time or 0.0, each.reason != _PLACED), reverse=True):
        if event.about not in placed:
            found.append(event)
        if event.reason == _PLACED:
            placed.add(event.about)
    return found[::-1]


def _phase_after(event: Event) -> str:
    if event.reason in _OF_IMAGE_OR_CONTAINER:
        message = event.message.casefold()
        return "pull" if "pull" in message or "image" in message else "start"
    return _PHASE_AFTER.get(event.reason, "")


def _is_failing(events: Sequence[Event]) -> bool:
    """True if a pod's pull has failed, and will again as far as its newest event says that names a cause.

    Each further try of a pull that failed begins with a new `Pulling`.
    """
    failed = [each.message for each in reversed(events) if each.reason != "Pulling" and _phase_after(each) == "pull"]
    cause = next(filter(names_cause, failed), "")
    return bool(failed) and not may_pass(cause)
