"""Slurm's time limits."""

from __future__ import annotations

import re

from nemo_runspec.backends.checks import short
from nemo_runspec.duration import hours
from nemo_runspec.errors import UserError

__all__ = ["hours", "is_placeholder", "time_problem"]

_PLACEHOLDER = re.compile(r"CHANGE|YOUR|^<.*>$")


def is_placeholder(time: str) -> bool:
    """True for a text that stands where a time limit is still to be written, such as CHANGE_ME."""
    return _PLACEHOLDER.search(time.strip()) is not None


def time_problem(key: str, time: str) -> list[UserError]:
    """What is wrong with a time limit, if anything. The forms are those of sbatch's manual page."""
    try:
        hours(time)
    except ValueError:
        return [
            UserError(
                f"{key} is not a time limit Slurm takes: {short(time)}",
                remedy="write M, M:S, H:M:S, D-H, D-H:M or D-H:M:S, such as 04:00:00 or 2-12",
                key=key,
            )
        ]
    return []
