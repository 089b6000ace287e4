"""Jobs that a platform says it does not have: believed once three looks agree, over a minute at least.

One answer is not the truth: a gateway's 404, an empty page of a list and a list that lacks a row all say the same of a
job that runs. What was seen is kept among the job's facts, so that looks of separate processes count together, and a
single look that finds the job undoes all of it.
"""

from __future__ import annotations

from dataclasses import replace

from nemo_runspec.records.lifecycle import Absence
from nemo_runspec.records.record import JobRecord
from nemo_runspec.records.status import JobStatus

LOOKS = 3
"""Looks that must agree."""

SPAN = 60.0
"""Seconds from the first to the last of them, at least."""

APART = 15.0
"""Seconds between two looks that count as two: several within one hiccup of a platform are one."""

BELIEVED = "believed once three looks over a minute agree"
CANCELLED = 143


def judged(record: JobRecord, seen: JobStatus, now: float) -> JobStatus:
    """What is seen of a job; one that is not there is `unknown` until that is believed.

    Then it is `lost`, or `cancelled` where somebody had stopped it before, or `JobStatus.gone` where it was perhaps
    never submitted.

    Args:
        now: seconds since 1970.
    """
    if not (seen.absent or _may_have_been_sent(record, seen)):
        return seen
    if record.state == "lost" or _deleted(record):
        return _believed(record, seen, record.facts.absent)
    looks = counted(record.facts.absent, now, stop=bool(record.stopped_by))
    if is_believed(looks):
        return _believed(record, seen, looks)
    facts = replace(seen.facts, absent=looks)
    return replace(seen, state="unknown", reason=f"{seen.reason}; {BELIEVED}", gone=False, exit_code=None, facts=facts)


def counted(before: Absence | None, now: float, *, stop: bool) -> Absence:
    """The looks so far with this one. A clock that was set back begins anew.

    Args:
        stop: whether somebody had wanted the job to stop by the first of them.
    """
    if before is None or not before.first <= before.last <= now:
        return Absence(1, now, now, stop)
    if now - before.last < APART:
        return before
    return replace(before, looks=before.looks + 1, last=now)


def is_believed(absence: Absence) -> bool:
    """True if these looks are enough."""
    return absence.looks >= LOOKS and absence.last - absence.first >= SPAN


def _may_have_been_sent(record: JobRecord, seen: JobStatus) -> bool:
    """True if the request that makes the job has gone out. Without one, that it is not there is no surprise."""
    return seen.gone and record.sent is not None


def _believed(record: JobRecord, seen: JobStatus, looks: Absence | None) -> JobStatus:
    facts = replace(seen.facts, absent=looks or seen.facts.absent)
    if seen.gone:
        return replace(seen, facts=facts)
    by = record.stopped_by
    if by and (_deleted(record) or (looks and looks.stop)):
        return replace(seen, state="cancelled", reason=f"cancelled by {by}", exit_code=CANCELLED, facts=facts)
    return replace(seen, state="lost", facts=facts)


def _deleted(record: JobRecord) -> bool:
    return record.cancellation is not None and record.cancellation.deleted
