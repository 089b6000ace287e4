"""Slurm's time limits."""

from __future__ import annotations

from nemo_runspec.duration import hours
from nemo_runspec.errors import UserError

__all__ = ["hours", "time_problem"]


def time_problem(key: str, time: str) -> list[UserError]:
    """What is wrong with a time limit, if anything. The forms are those of sbatch's manual page."""
    try:
        hours(time)
    except ValueError:
        return [
            UserError(
                f"{key} is not a time limit Slurm takes: {time!r}",
                remedy="write M, M:S, H:M:S, D-H, D-H:M or D-H:M:S, such as 04:00:00 or 2-12",
            )
        ]
    return []
