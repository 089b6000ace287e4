"""What the storms of signals have in common: which signals, and when they come."""

from __future__ import annotations

from dataclasses import dataclass

STOPS = ("TERM", "INT", "HUP")
SIGNALS = ("TERM", "INT", "USR1", "HUP")


@dataclass(frozen=True)
class Moment:
    """Which signals come when; a seed gives the same moment again.

    Args:
        words: what is sent, one or two. `times`: when each is, in the storm's own measure, from the job's start or,
            where it is `late`, around the moment in which the command may end.
    """

    seed: int
    words: tuple[str, ...]
    times: tuple[float, ...]
    late: bool
