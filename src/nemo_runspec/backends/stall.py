"""The profile key `stall_timeout`, of every executor that has it. `jobside/stall.py` acts by it, inside the job."""

from __future__ import annotations

from nemo_runspec.backends.checks import shortened_value
from nemo_runspec.duration import FORMS, whole_seconds
from nemo_runspec.errors import UserError
from nemo_runspec.field import Field
from nemo_runspec.topics import TROUBLE

STALL_TIMEOUT = Field(
    "stall_timeout",
    "str",
    "End the job once neither its log nor its metrics have grown for so long, such as 30m, 90s or 1h30m; the stacks of "
    "its Python processes are in the log then.",
    of_builds=False,
    topic=TROUBLE,
)


def stall_seconds(text: str | None) -> int | None:
    """How long a job may show no progress; None for as long as it likes, and for what `stall_problem` is about."""
    try:
        return whole_seconds(text) if text else None
    except ValueError:
        return None


def stall_problem(text: str | None) -> list[UserError]:
    """What is wrong with a profile's `stall_timeout`, if anything."""
    if not text or stall_seconds(text):
        return []
    return [
        UserError(
            f"stall_timeout is no length of time: {shortened_value(text)}",
            remedy=f"write it with its unit, such as {FORMS}",
            key="stall_timeout",
        )
    ]
