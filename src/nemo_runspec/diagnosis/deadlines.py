"""Limits on waiting that have passed, as they are noted among the facts of a job's status."""

from __future__ import annotations

from nemo_runspec.diagnosis.causes import DEADLINES
from nemo_runspec.diagnosis.model import PassedDeadline
from nemo_runspec.records.status import JobStatus


def passed(seen: JobStatus) -> PassedDeadline | None:
    """The limit on waiting that has passed, as `remote.deadlines` has noted it; None for none."""
    return (
        PassedDeadline(phase_of(seen), str(seen.facts.get("failed_for") or "")) if seen.facts.get("overdue") else None
    )


def phase_of(seen: JobStatus) -> str:
    """What a job waits for: `queue`, `pull` or `start`."""
    phase = str(seen.facts.get("phase") or "")
    return phase if phase in DEADLINES else "start"
