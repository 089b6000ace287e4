"""Submissions without a response. The request may still be processed, so the job is polled for ten seconds before it
counts as not there.

Until then the record of a cloud's job says when its request was sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from nemo_runspec.backends.provider import Provider, ref_of
from nemo_runspec.records import JobRecord
from nemo_runspec.records.status import JobStatus
from nemo_runspec.transport.base import Unreachable

PAUSES: Sequence[float] = (1.0, 2.0, 3.0, 4.0)
"""Seconds before each further poll for a job that may still appear."""

_FRESH = 60.0
"""Seconds after which a request that was sent has been served, or never will be."""


def is_unconfirmed(record: JobRecord) -> bool:
    """True if the outcome of a request that makes the job would be unknown, should its response be lost."""
    return record.attempt is not None


def may_appear(record: JobRecord) -> bool:
    """True if a job that is not there may still appear: its request is not older than a minute."""
    return not record.submitted and record.sent is not None and time.time() - record.sent < _FRESH


def id_in(seen: JobStatus) -> str:
    """The id of a job that was looked for by its name.

    Raises:
        Unreachable: its platform's answer does not say whether there is such a job.
    """
    if not seen.facts.id:
        raise Unreachable(seen.reason or "whether the job is there is not known", remedy="try again")
    return seen.facts.id


def confirmed_status(
    provider: Provider,
    records: Sequence[JobRecord],
    *,
    places: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> list[JobStatus]:
    """Polls like `Provider.status`, and for ten seconds again for jobs that are not there and may still appear.

    Raises:
        UserError: as `Provider.status`.
    """
    refs = [ref_of(record) for record in records]
    answers = list(provider.status(refs, places=places))
    for pause in PAUSES:
        left = [n for n, seen in enumerate(answers) if seen.gone and may_appear(records[n])]
        if not left:
            break
        sleep(pause)
        for n, seen in zip(left, provider.status([refs[n] for n in left]), strict=True):
            answers[n] = seen
    return answers
