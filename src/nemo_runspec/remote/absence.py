"""Jobs that a platform says it does not have: believed once three looks agree, over a minute at least.

One answer is not the truth: a gateway's 404, an empty page of a list and a list that lacks a row all say the same of a
job that runs. What was seen is kept among the job's facts, so that looks of separate processes count together, and a
single look that finds the job undoes all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nemo_runspec.jobs import JobRecord
from nemo_runspec.jobs.record import ABSENT
from nemo_runspec.remote.provider import JobStatus

LOOKS = 3
"""Looks that must agree."""

SPAN = 60.0
"""Seconds from the first to the last of them, at least."""

APART = 15.0
"""Seconds between two looks that count as two: several within one hiccup of a platform are one."""

DELETED = "deleted"
"""Of a handle: nemotron has deleted the job, and its platform has acknowledged that."""

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
    if record.state == "lost" or record.handle.get(DELETED):
        return _believed(record, seen, _told(record))
    told = counted(_told(record), now, stop=bool(record.handle.get("stopped_by")))
    if is_believed(told):
        return _believed(record, seen, told)
    why = f"{seen.reason}; {BELIEVED}"
    return replace(seen, state="unknown", reason=why, gone=False, exit_code=None, facts={**seen.facts, ABSENT: told})


def counted(before: Mapping[str, Any] | None, now: float, *, stop: bool) -> dict[str, Any]:
    """The looks so far with this one. A clock that was set back begins anew.

    Args:
        before: as `parse_looks`. `stop`: whether somebody had wanted the job to stop by the first of them.
    """
    if before is None or not before["first"] <= before["last"] <= now:
        return {"looks": 1, "first": now, "last": now, "stop": stop}
    if now - before["last"] < APART:
        return dict(before)
    return {**before, "looks": before["looks"] + 1, "last": now}


def is_believed(told: Mapping[str, Any]) -> bool:
    """Whether these looks are enough."""
    return bool(told["looks"] >= LOOKS and told["last"] - told["first"] >= SPAN)


def parse_looks(told: object) -> dict[str, Any] | None:
    """Looks as `counted` has written them, None where there are none; a record may have been written by anybody."""
    if not isinstance(told, dict):
        return None
    return told if all(type(told.get(key)) in (int, float) for key in ("looks", "first", "last")) else None


def _may_have_been_sent(record: JobRecord, seen: JobStatus) -> bool:
    """Whether the request that makes the job has gone out. Without one, that it is not there is no surprise."""
    return seen.gone and bool(record.handle.get("sent"))


def _believed(record: JobRecord, seen: JobStatus, told: Mapping[str, Any] | None) -> JobStatus:
    facts = {**seen.facts, ABSENT: told} if told else seen.facts
    if seen.gone:
        return replace(seen, facts=facts)
    by = record.handle.get("stopped_by")
    if by and (record.handle.get(DELETED) or (told or {}).get("stop")):
        return replace(seen, state="cancelled", reason=f"cancelled by {by}", exit_code=CANCELLED, facts=facts)
    return replace(seen, state="lost", facts=facts)


def _told(record: JobRecord) -> dict[str, Any] | None:
    return parse_looks(record.facts.get(ABSENT))
