"""Why a workload waits, and which of its deadlines runs: in run:ai's words where it has any, else in the cluster's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nemo_runspec.backends.dgxcloud.api import Row, RunaiApi
from nemo_runspec.backends.dgxcloud.states import Meaning
from nemo_runspec.errors import UserError

_PHASE_AFTER: Mapping[str, str] = {
    "Pulling": "pull", "ErrImagePull": "pull", "ImagePullBackOff": "pull", "InspectFailed": "pull",
    "Pulled": "start", "Created": "start", "Started": "start", "FailedMount": "start", "FailedAttachVolume": "start",
    "FailedCreatePodSandBox": "start",
}  # fmt: skip
"""Reasons of Kubernetes' events, and which deadline runs after one."""

_OF_BOTH = frozenset({"Failed", "BackOff"})
"""Reasons that the kubelet gives of images as of containers: their message tells which is meant."""


@dataclass(frozen=True, slots=True)
class Wait:
    """`why`: in words, '' if nothing is said. `phase`: which deadline runs, '' if none; None if it was not asked."""

    why: str = ""
    phase: str | None = ""


def wait_of(api: RunaiApi, row: Row, known: Meaning) -> Wait:
    """Why a workload waits. One request where run:ai itself does not say, and for one that is starting."""
    said, starting = _scheduling(row), known.state == "starting"
    if said and not starting:
        return Wait(said, known.waits)
    try:
        events = api.events(str(row.get("id")))
    except UserError:
        return unasked(row, known)
    warning = next((event for event in events if event.get("type") == "Warning"), None)
    told = f"{warning.get('reason')}: {warning.get('message')}" if warning else ""
    return Wait(said or told, _phase_of(events, known.waits) if starting else known.waits)


def unasked(row: Row, known: Meaning) -> Wait:
    """The same without a request: of one that is starting it is not known what it waits for."""
    return Wait(_scheduling(row), None if known.state == "starting" else known.waits)


def _scheduling(row: Row) -> str:
    for message in row.get("pendingSchedulingMessages") or ():
        said = message.get("userMessage") or message.get("reason") or message.get("phaseReason")
        if said:
            return str(said)
    return ""


def _phase_of(events: Iterable[Row], otherwise: str) -> str:
    """Which deadline runs by events, the newest first: as long as one pod pulls its image, the others wait for it."""
    newest: dict[str, str] = {}
    for event in events:
        phase = _phase_after(event)
        if phase:
            newest.setdefault(str((event.get("involvedObject") or {}).get("name")), phase)
    return "pull" if "pull" in newest.values() else next(iter(newest.values()), otherwise)


def _phase_after(event: Row) -> str:
    reason, message = str(event.get("reason")), str(event.get("message")).casefold()
    if reason in _OF_BOTH:
        return "pull" if "pull" in message or "image" in message else "start"
    return _PHASE_AFTER.get(reason, "")
