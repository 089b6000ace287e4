"""Why a workload waits, and which of its deadlines runs: in run:ai's words where it has any, else in the cluster's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nemo_runspec.backends.cloud.optional_requests import Aside
from nemo_runspec.backends.cloud.states import StateMapping
from nemo_runspec.backends.dgxcloud.api import Row, RunaiApi
from nemo_runspec.backends.dgxcloud.pods import Pod, pods_of
from nemo_runspec.diagnosis.pulls import may_pass, names_cause
from nemo_runspec.transport.reading import table, tables, text, whole

PODS, EVENTS = "pods", "events"
"""What is asked for beside a workload itself."""

_SAID = ("userMessage", "reason", "phaseReason")
"""Keys of a message on why a workload waits, the best first."""

_PHASE_AFTER: Mapping[str, str] = {
    "Pulling": "pull", "ErrImagePull": "pull", "ImagePullBackOff": "pull", "InspectFailed": "pull",
    "Pulled": "start", "Created": "start", "Started": "start", "FailedMount": "start", "FailedAttachVolume": "start",
    "FailedCreatePodSandBox": "start",
}  # fmt: skip
"""Reasons of Kubernetes' events, and which deadline runs after one."""

_OF_BOTH = frozenset({"Failed", "BackOff"})
"""Reasons that the kubelet gives of images as of containers: their message tells which is meant."""

_PLACED = "Scheduled"
"""The first event of a pod that has got a node: what is older was of its queue, or of another pod of this name."""


@dataclass(frozen=True, slots=True)
class Wait:
    """What a workload waits for.

    Args:
        why: in words, '' if nothing is said. `phase`: which deadline runs, '' if none; None if it was not asked.
        nodes: the machines its pods are on, with commas. `placed`: all of them have one: it waits for no node any more.
        failing: its image was not just slow to come: a pull has failed.
    """

    why: str = ""
    phase: str | None = ""
    nodes: str = ""
    placed: bool = False
    failing: bool = False


def wait_of(api: RunaiApi, aside: Aside, row: Row, known: StateMapping, *, brief: bool = False) -> Wait:
    """Why a workload waits. Two requests where run:ai itself does not say, and for one that is starting.

    Args:
        brief: of one that has no nodes yet nothing more is asked.
    """
    said, starting = _scheduling(row), known.state == "starting"
    if said and not starting:
        return Wait(said, known.phase)
    pods = aside.listed(PODS, pods_of, api, text(row.get("id")))
    placed = _all_placed(row, pods)
    if brief and not placed and not starting:
        return Wait(said, known.phase)
    events = list(_current(aside.listed(EVENTS, api.events, text(row.get("id")))))
    if aside.lacks(PODS, EVENTS):
        return unasked(row, known)
    nodes = ",".join(pod.node for pod in pods if pod.node)
    if not placed and not starting:
        return Wait(said or _warning(events), known.phase, nodes)
    newest = _newest(events)
    phase = "pull" if "pull" in newest.values() else next(iter(newest.values()), "pull")
    failing = any(_is_failing([event for event in events if _about(event) == pod]) for pod in _pulling(newest))
    return Wait(said or _warning(events), phase, nodes, placed, failing)


def unasked(row: Row, known: StateMapping) -> Wait:
    """The same without a request: of one that is starting it is not known what it waits for."""
    return Wait(_scheduling(row), None if known.state == "starting" else known.phase)


def _scheduling(row: Row) -> str:
    found = (text(each.get(key)) for each in tables(row.get("pendingSchedulingMessages")) for key in _SAID)
    return next(filter(None, found), "")


def _all_placed(row: Row, pods: Sequence[Pod]) -> bool:
    number = whole(table(row.get("requestedPods")).get("number"))
    return len(pods) >= (1 if number is None else number) and all(pod.node for pod in pods) and bool(pods)


def _current(events: Iterable[Row]) -> Iterator[Row]:
    """The newest first, of each pod those since it has got its node. Times may be of whole seconds."""
    placed: set[str] = set()
    for event in sorted(
        events, key=lambda each: (text(each.get("createdAt")), each.get("reason") != _PLACED), reverse=True
    ):
        if _about(event) not in placed:
            yield event
        if event.get("reason") == _PLACED:
            placed.add(_about(event))


def _warning(events: Iterable[Row]) -> str:
    """The newest warning, before one that names no cause an older one that does."""
    warnings = [event for event in events if event.get("type") == "Warning"]
    warnings.sort(key=lambda event: not names_cause(text(event.get("message"))))
    return f"{text(warnings[0].get('reason'))}: {text(warnings[0].get('message'))}" if warnings else ""


def _newest(events: Iterable[Row]) -> dict[str, str]:
    """By pod, which deadline runs by its newest event: as long as one pulls its image, the others wait for it."""
    newest: dict[str, str] = {}
    for event in events:
        if phase := _phase_after(event):
            newest.setdefault(_about(event), phase)
    return newest


def _phase_after(event: Row) -> str:
    reason, message = text(event.get("reason")), text(event.get("message")).casefold()
    if reason in _OF_BOTH:
        return "pull" if "pull" in message or "image" in message else "start"
    return _PHASE_AFTER.get(reason, "")


def _pulling(newest: Mapping[str, str]) -> Iterator[str]:
    return (pod for pod, phase in newest.items() if phase == "pull")


def _is_failing(events: Sequence[Row]) -> bool:
    """Whether a pod's pull has failed, and will again as far as its newest event says that names a cause."""
    failed = [text(event.get("message")) for event in events if _fails_to_pull(event)]
    cause = next(filter(names_cause, failed), "")
    return bool(failed) and not may_pass(cause)


def _fails_to_pull(event: Row) -> bool:
    """A pull that failed is tried again, each time with a new `Pulling`."""
    return event.get("reason") != "Pulling" and _phase_after(event) == "pull"


def _about(event: Row) -> str:
    return text(table(event.get("involvedObject")).get("name"))
