"""Why a workload waits, and which of its deadlines runs: in run:ai's words where it has any, else in the cluster's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nemo_runspec.backends.dgxcloud.api import Row, RunaiApi
from nemo_runspec.backends.dgxcloud.pods import Pod, pods_of
from nemo_runspec.backends.dgxcloud.states import Meaning
from nemo_runspec.cloud.diagnosis.pulls import may_pass, names_cause
from nemo_runspec.errors import UserError

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


def wait_of(api: RunaiApi, row: Row, known: Meaning, *, brief: bool = False) -> Wait:
    """Why a workload waits. Two requests where run:ai itself does not say, and for one that is starting.

    Args:
        brief: of one that has no nodes yet nothing more is asked.
    """
    said, starting = _scheduling(row), known.state == "starting"
    if said and not starting:
        return Wait(said, known.waits)
    try:
        pods = pods_of(api, str(row.get("id")))
        placed = _all_placed(row, pods)
        if brief and not placed and not starting:
            return Wait(said, known.waits)
        events = list(_current(api.events(str(row.get("id")))))
    except UserError:
        return unasked(row, known)
    nodes = ",".join(pod.node for pod in pods if pod.node)
    if not placed and not starting:
        return Wait(said or _warning(events), known.waits, nodes)
    newest = _newest(events)
    phase = "pull" if "pull" in newest.values() else next(iter(newest.values()), "pull")
    failing = any(_is_failing([event for event in events if _about(event) == pod]) for pod in _pulling(newest))
    return Wait(said or _warning(events), phase, nodes, placed, failing)


def unasked(row: Row, known: Meaning) -> Wait:
    """The same without a request: of one that is starting it is not known what it waits for."""
    return Wait(_scheduling(row), None if known.state == "starting" else known.waits)


def _scheduling(row: Row) -> str:
    for message in row.get("pendingSchedulingMessages") or ():
        said = message.get("userMessage") or message.get("reason") or message.get("phaseReason")
        if said:
            return str(said)
    return ""


def _all_placed(row: Row, pods: Sequence[Pod]) -> bool:
    wanted = row.get("requestedPods")
    number: Any = wanted.get("number") if isinstance(wanted, dict) else None
    return len(pods) >= (number if isinstance(number, int) else 1) and all(pod.node for pod in pods) and bool(pods)


def _current(events: Iterable[Row]) -> Iterator[Row]:
    """The newest first, of each pod those since it has got its node. Times may be of whole seconds."""
    placed: set[str] = set()
    for event in sorted(
        events, key=lambda each: (str(each.get("createdAt")), each.get("reason") != _PLACED), reverse=True
    ):
        if _about(event) not in placed:
            yield event
        if event.get("reason") == _PLACED:
            placed.add(_about(event))


def _warning(events: Iterable[Row]) -> str:
    """The newest warning, before one that names no cause an older one that does."""
    warnings = [event for event in events if event.get("type") == "Warning"]
    warnings.sort(key=lambda event: not names_cause(str(event.get("message"))))
    return f"{warnings[0].get('reason')}: {warnings[0].get('message')}" if warnings else ""


def _newest(events: Iterable[Row]) -> dict[str, str]:
    """By pod, which deadline runs by its newest event: as long as one pulls its image, the others wait for it."""
    newest: dict[str, str] = {}
    for event in events:
        if phase := _phase_after(event):
            newest.setdefault(_about(event), phase)
    return newest


def _phase_after(event: Row) -> str:
    reason, message = str(event.get("reason")), str(event.get("message")).casefold()
    if reason in _OF_BOTH:
        return "pull" if "pull" in message or "image" in message else "start"
    return _PHASE_AFTER.get(reason, "")


def _pulling(newest: Mapping[str, str]) -> Iterator[str]:
    return (pod for pod, phase in newest.items() if phase == "pull")


def _is_failing(events: Sequence[Row]) -> bool:
    """Whether a pod's pull has failed, and will again as far as its newest event says that names a cause."""
    failed = [str(event.get("message")) for event in events if _fails_to_pull(event)]
    cause = next(filter(names_cause, failed), "")
    return bool(failed) and not may_pass(cause)


def _fails_to_pull(event: Row) -> bool:
    """A pull that failed is tried again, each time with a new `Pulling`."""
    return event.get("reason") != "Pulling" and _phase_after(event) == "pull"


def _about(event: Row) -> str:
    return str((event.get("involvedObject") or {}).get("name"))
