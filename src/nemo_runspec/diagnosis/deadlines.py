"""Limits on waiting that have passed, as they are noted among the facts of a job's status."""

from __future__ import annotations

from nemo_runspec.diagnosis.causes import DEADLINES
from nemo_runspec.diagnosis.model import PassedDeadline
from nemo_runspec.records.status import JobStatus


def passed(seen: JobStatus) -> PassedDeadline | None:
    """The limit on waiting that has passed, as `remote.deadlines` has noted it; None for none."""
    return PassedDeadline(phase_of(seen), seen.facts.failed_for) if seen.facts.overdue else None


def phase_of(seen: JobStatus) -> str:
    """What a job waits for: `queue`, `pull` or `start`."""
    phase = seen.facts.phase
    return phase if phase and phase in DEADLINES else "start"
