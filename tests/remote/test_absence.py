"""When a job that its platform does not know any more is believed to be gone. Pure: the clock is a number."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from job_records import record

from nemo_runspec.records import JobRecord
from nemo_runspec.records.absence import judged
from nemo_runspec.records.facts import JobFacts
from nemo_runspec.records.status import JobStatus

AWAY = JobStatus("unknown", "there is no such job", facts=JobFacts(id="1"), absent=True)
NEVER = JobStatus("failed", "it was never submitted", exit_code=1, gone=True)
BEGAN = 1_700_000_000.0


def job(*states: str, facts: JobFacts | Mapping[str, Any] | None = None, **handle: Any) -> JobRecord:
    steps = ("planned", "submitting", "queued", *(states or ("running",)))
    return record("job", steps, handle={"name": "job", "id": "1", **handle}, facts=facts or {})


def looked(known: JobRecord, times: Sequence[float], says: JobStatus = AWAY) -> list[JobStatus]:
    """What is made of looks at those seconds, each with what the one before has left on record."""
    found = []
    for after in times:
        found.append(judged(known, says, BEGAN + after))
        known = dataclasses.replace(known, facts=found[-1].facts)
    return found


@pytest.mark.parametrize(
    ("times", "believed"),
    [
        ((0, 30, 60), True),
        ((0, 59), False),
        ((0, 3600), False),  # two
        ((0, 30, 59), False),  # not a minute
        ((0, 1, 2, 60, 61), False),  # of one moment, and of another
        ((0, 1, 2, 60, 61, 75), True),
        ((0, 86400, 172800), True),
        ((0, 40, -50, 30), False),  # the clock was set back: begun anew
    ],
)
def test_three_looks_over_a_minute(times, believed):
    *before, last = looked(job(), times)
    assert {each.state for each in before} == {"unknown"}
    assert last.state == ("lost" if believed else "unknown")
    assert last.reason.startswith("there is no such job")


def test_what_others_wrote_in_its_place_is_no_evidence():
    for odd in (3, "3", [], {"looks": 9}, {"looks": 9, "first": "long ago", "last": True}, None):
        [seen] = looked(job(facts={"absent": odd}), [100])
        assert (seen.state, seen.facts.absent.looks) == ("unknown", 1)


@pytest.mark.parametrize(
    ("handle", "state", "reason"),
    [
        ({"stopped_by": "me"}, "cancelled", "cancelled by me"),
        ({}, "lost", "there is no such job"),
    ],
)
def test_a_job_that_was_stopped_before_has_been_cancelled(handle, state, reason):
    last = looked(job(**handle), (0, 30, 60))[-1]
    assert (last.state, last.reason) == (state, reason)
    assert last.exit_code == (143 if state == "cancelled" else None)


def test_a_job_that_was_gone_before_somebody_stopped_it_is_lost():
    facts = looked(job(), (0, 30))[-1].facts
    last = judged(job(facts=facts, stopped_by="me"), AWAY, BEGAN + 60)
    assert last.state == "lost"


def test_what_we_have_deleted_is_no_doubt():
    assert judged(job(stopped_by="me", deleted=True), AWAY, BEGAN).state == "cancelled"


def test_a_lost_job_stays_lost_until_it_is_seen():
    known = job("running", "lost")
    assert judged(known, AWAY, BEGAN).state == "lost"
    assert judged(known, JobStatus("running"), BEGAN) == JobStatus("running")


@pytest.mark.parametrize(("sent", "state"), [(BEGAN, "unknown"), (None, "failed")])
def test_a_job_that_was_perhaps_never_submitted(sent, state):
    """Where a request went out, the first list without the job does not say that it never will be there."""
    known = job("unknown", id="", sent=sent)
    assert looked(known, [0], NEVER)[0].state == state
    last = looked(known, (0, 30, 60), NEVER)[-1]
    assert (last.state, last.gone) == ("failed", True)


@pytest.mark.parametrize(
    ("states", "seconds"),
    [
        (("running", "unknown", "running"), 3), (("running", "unknown", "lost", "running"), 3),
        (("running", "queued", "running"), 5), (("running", "unknown", "queued", "unknown", "running"), 7),
        (("running", "unknown"), 3), (("unknown", "running"), 4), (("queued",), None),
    ],
)  # fmt: skip
def test_since_when_it_runs(states, seconds):
    """A time in which it could not be seen does not end a run; the queue does."""
    known = job(*states)
    expected = None if seconds is None else datetime.fromisoformat(known.created) + timedelta(seconds=seconds)
    assert known.running_since == expected
