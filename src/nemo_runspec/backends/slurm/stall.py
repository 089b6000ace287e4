"""The profile's `stall_timeout`, read. `script/stall.sh` is what acts by it, inside the job."""

from __future__ import annotations

from nemo_runspec.duration import seconds
from nemo_runspec.errors import UserError

STALLS = 3
"""How often a job is requeued after it stalled, at most; `script/stall.sh` has it too."""


def stall_seconds(text: str | None) -> int | None:
    """How long a job may show no progress; None for as long as it likes, and for what `stall_problem` is about."""
    try:
        return seconds(text) if text else None
    except ValueError:
        return None


def stall_problem(text: str | None) -> list[UserError]:
    """What is wrong with a profile's `stall_timeout`, if anything."""
    if not text or stall_seconds(text):
        return []
    return [UserError(f"stall_timeout is no length of time: {text!r}", remedy='write it with its unit, such as "30m"')]
