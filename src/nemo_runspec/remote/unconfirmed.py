"""Submissions that were cut off: a request that was sent may still arrive, so that a job which is not there yet may be.

While that is so the handle of a job of a cloud has `sent`: when its request was sent, in seconds since 1970. Where a
submission is made under a lock, as Slurm's is, there is no such time and no doubt.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from nemo_runspec.remote.provider import Handle, JobStatus, Provider
from nemo_runspec.transport.base import Unreachable

PAUSES: Sequence[float] = (1.0, 2.0, 3.0, 4.0)
"""Seconds before each further look for a job that may still come to be."""

_FRESH = 60.0
"""Seconds after which a request that was sent has been served, or never will be."""


def mark(handle: Handle) -> dict[str, Any]:
    """What the handle of a job is to have from just before its request is sent; nothing where there is no doubt."""
    return {"sent": time.time()} if "attempt" in handle else {}


def may_come(handle: Handle) -> bool:
    """Whether a job that is not there may still come to be."""
    sent = handle.get("sent")
    return not handle.get("id") and isinstance(sent, (int, float)) and time.time() - sent < _FRESH


def id_in(seen: JobStatus) -> str:
    """The id of a job that was looked for by its name.

    Raises:
        Unreachable: its platform's answer does not say whether there is such a job.
    """
    id = seen.facts.get("id")
    if not id:
        raise Unreachable(seen.reason or "whether the job is there is not known", remedy="try again")
    return str(id)


def look(
    provider: Provider,
    handles: Sequence[Handle],
    *,
    places: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> list[JobStatus]:
    """As `Provider.status`; a job that is not there, and may still come to be, is looked for again for ten seconds.

    Raises:
        UserError: as `Provider.status`.
    """
    answers = list(provider.status(handles, places=places))
    for pause in PAUSES:
        left = [n for n, seen in enumerate(answers) if seen.gone and may_come(handles[n])]
        if not left:
            break
        sleep(pause)
        for n, seen in zip(left, provider.status([handles[n] for n in left]), strict=True):
            answers[n] = seen
    return answers
