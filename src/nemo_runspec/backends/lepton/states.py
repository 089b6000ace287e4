"""Lepton's words for how a job is, in ours. A word that is not in the table is not guessed at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nemo_runspec.backends.lepton.api import rows, section
from nemo_runspec.transport.reading import moment, text, whole

CANCELLED = 143
"""Exit code of a job that was stopped: as after SIGTERM."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """One of Lepton's states.

    Args:
        state: ours. `phase`: the deadline that counts meanwhile, '' for none. `reason`: in words.
    """

    state: str
    phase: str = ""
    reason: str = ""


STATES: Mapping[str, Meaning] = {
    "Queueing": Meaning("queued", "queue"),
    "Awaiting": Meaning("queued", "queue"),
    "PendingRetry": Meaning("queued", "queue", "waits to be started again"),
    "Starting": Meaning("starting", "start"),
    "Restarting": Meaning("starting", "start", "is started again"),
    "Running": Meaning("running"),
    "Stopping": Meaning("running", reason="is being stopped"),
    "Terminating": Meaning("running", reason="is being ended"),
    "Deleting": Meaning("running", reason="is being deleted"),
    "Completed": Meaning("succeeded"),
    "Failed": Meaning("failed"),
    "Stopped": Meaning("cancelled", reason="it was stopped"),
    "Deleted": Meaning("cancelled", reason="it was deleted on Lepton"),
}

_ENDS = frozenset({"succeeded", "failed", "cancelled", "lost"})

seconds_of = moment
"""Lepton's reference does not say in which part of a second it counts."""


def meaning_of(job: Mapping[str, Any]) -> Meaning:
    """How a job is. An archived one ended as its counts say, else as the last of its history did.

    Where neither says so it is `lost`: nobody need wait for it, and how it ended cannot be known.
    """
    status = section(job, "status")
    word = text(status.get("state"))
    if word == "Archived":
        return _archived(job, status)
    if word == "Running" and _lacks_pods(status):
        return STATES["Starting"]
    if not word:
        return Meaning("unknown", reason="Lepton does not say its state")
    return STATES.get(word) or Meaning("unknown", reason=f"Lepton says '{word}', which this version does not know")


def is_begun(job: Mapping[str, Any]) -> bool:
    """Whether some of its pods are ready, and others are not, or not yet."""
    status = section(job, "status")
    return word_of(job) == "Running" and _lacks_pods(status) and _number(status.get("ready")) > 0


def is_over(job: Mapping[str, Any]) -> bool:
    """Whether nothing more will happen to it. A word that is not known says nothing about that."""
    return meaning_of(job).state in _ENDS


def word_of(job: Mapping[str, Any]) -> str:
    """Lepton's own word."""
    return text(section(job, "status").get("state"))


def times_of(job: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """When it was created and when it was over, seconds since 1970; None where that is not said."""
    status = section(job, "status")
    created = status.get("creation_time") or section(job, "metadata").get("created_at")
    return seconds_of(created), seconds_of(status.get("completion_time"))


def _archived(job: Mapping[str, Any], status: Mapping[str, Any]) -> Meaning:
    spec = section(job, "spec")
    if _number(status.get("succeeded")) >= max(1, _number(spec.get("completions"))):
        return Meaning("succeeded")  # whatever has failed before was started again
    if _number(status.get("failed")):
        return Meaning("failed")
    if spec.get("stopped"):
        return STATES["Stopped"]
    ends = [STATES.get(text(each.get("state"))) for each in rows(job, "status", "job_history")]
    last = next((end for end in reversed(ends) if end is not None and end.state in _ENDS), None)
    return last or Meaning("lost", reason="Lepton has archived it and does not say how it ended")


def _lacks_pods(status: Mapping[str, Any]) -> bool:
    """Whether it counts pods that are not ready; where it does not count, that says nothing."""
    ready, active = status.get("ready"), status.get("active")
    return whole(ready) is not None and whole(active) is not None and _number(ready) < _number(active)


def _number(value: Any) -> int:
    return whole(value) or 0
