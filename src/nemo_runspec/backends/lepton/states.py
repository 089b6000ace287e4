"""Lepton's words for how a job is, in ours. A word that is not in the table is not guessed at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.cloud.states import StateMapping, lookup
from nemo_runspec.backends.lepton.api import rows, section
from nemo_runspec.transport.reading import moment, text, whole

STATES: Mapping[str, StateMapping] = {
    "Queueing": StateMapping("queued", "queue"),
    "Awaiting": StateMapping("queued", "queue"),
    "PendingRetry": StateMapping("queued", "queue", "waits to be started again"),
    "Starting": StateMapping("starting", "start"),
    "Restarting": StateMapping("starting", "start", "is started again"),
    "Running": StateMapping("running"),
    "Stopping": StateMapping("running", reason="is being stopped", ending=True),
    "Terminating": StateMapping("running", reason="is being ended", ending=True),
    "Deleting": StateMapping("running", reason="is being deleted", ending=True),
    "Completed": StateMapping("succeeded"),
    "Failed": StateMapping("failed"),
    "Stopped": StateMapping("cancelled", reason="it was stopped"),
    "Deleted": StateMapping("cancelled", reason="it was deleted on Lepton"),
}

seconds_of = moment
"""Lepton's reference does not say in which part of a second it counts."""


def mapping_of(job: Mapping[str, Any]) -> StateMapping:
    """How a job is. An archived one ended as its counts say, else as the last of its history did.

    Where neither says so it is `lost`: nobody need wait for it, and how it ended cannot be known.
    """
    status = section(job, "status")
    word = text(status.get("state"))
    if word == "Archived":
        return _archived(job, status)
    if word == "Running" and _lacks_pods(status):
        return STATES["Starting"]
    return lookup(STATES, word, "Lepton")


def is_begun(job: Mapping[str, Any]) -> bool:
    """True if some of its pods are ready, and others are not, or not yet."""
    status = section(job, "status")
    return word_of(job) == "Running" and _lacks_pods(status) and (whole(status.get("ready")) or 0) > 0


def is_ending(job: Mapping[str, Any]) -> bool:
    """True if it is over, or on its way to it. A word that is not known says nothing about that."""
    known = mapping_of(job)
    return known.over or known.ending


def word_of(job: Mapping[str, Any]) -> str:
    """Lepton's own word."""
    return text(section(job, "status").get("state"))


def times_of(job: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """When it was created and when it was over, seconds since 1970; None where that is not said."""
    status = section(job, "status")
    created = status.get("creation_time") or section(job, "metadata").get("created_at")
    return seconds_of(created), seconds_of(status.get("completion_time"))


def _archived(job: Mapping[str, Any], status: Mapping[str, Any]) -> StateMapping:
    spec = section(job, "spec")
    if (whole(status.get("succeeded")) or 0) >= max(1, whole(spec.get("completions")) or 0):
        return StateMapping("succeeded")  # whatever has failed before was started again
    if whole(status.get("failed")):
        return StateMapping("failed")
    if spec.get("stopped"):
        return STATES["Stopped"]
    ends = [STATES.get(text(each.get("state"))) for each in rows(job, "status", "job_history")]
    last = next((end for end in reversed(ends) if end is not None and end.over), None)
    return last or StateMapping("lost", reason="Lepton has archived it and does not say how it ended")


def _lacks_pods(status: Mapping[str, Any]) -> bool:
    """True if it counts pods that are not ready; where it does not count, that says nothing."""
    ready, active = whole(status.get("ready")), whole(status.get("active"))
    return ready is not None and active is not None and ready < active
