"""A platform's words for how a job is, in ours. A word that is not in its table is not guessed at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nemo_runspec.records.record import is_over

CANCELLED = 143
"""Exit code of a job that was stopped: as after SIGTERM."""

OUT_OF_MEMORY = 137
"""Exit code of a job of which the platform says that the kernel has killed it for want of memory."""

EXIT_CODES: Mapping[str, int] = {"succeeded": 0, "cancelled": CANCELLED, "failed": 1}
"""Exit codes of jobs that are over, where nothing better is known."""


@dataclass(frozen=True, slots=True)
class StateMapping:
    """What one of a platform's words means.

    Args:
        state: one of `records.record.STATES`.
        reason: in words.
        phase: the deadline that runs meanwhile: `queue`, `pull` or `start`; '' for none.
        ending: the platform is ending the job, whether its pods ever ran or not.
    """

    state: str
    phase: str = ""
    reason: str = ""
    ending: bool = False

    @property
    def over(self) -> bool:
        """True if nothing more will happen to the job."""
        return is_over(self.state)


def lookup(states: Mapping[str, StateMapping], word: str, platform: str) -> StateMapping:
    """What a word means; one that the table lacks is `unknown`, with the word as the reason."""
    if not word:
        return StateMapping("unknown", reason=f"{platform} does not say its state")
    return states.get(word) or StateMapping(
        "unknown", reason=f"{platform} says '{word}', which this version does not know"
    )
