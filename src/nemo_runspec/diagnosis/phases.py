"""What a job waits for before it runs, with a deadline for each: the words of those that have passed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Phase:
    """One of `records.lifecycle.PHASES`.

    Args:
        key: its deadline's, of the profile.
        doing: what the job did meanwhile, in words behind `it`.
        kind: of the diagnosis.
        remedy: a key of `causes.REMEDIES`, and of a platform's.
    """

    key: str
    doing: str
    kind: str
    remedy: str


PHASES: Mapping[str, Phase] = {
    "queue": Phase("queue_timeout", "waited for nodes", "capacity", "capacity"),
    "pull": Phase("pull_timeout", "was pulling the image", "image", "pull"),
    "start": Phase("start_timeout", "was starting", "", "start"),
}
"""By the word that a platform's facts have as `phase`."""
