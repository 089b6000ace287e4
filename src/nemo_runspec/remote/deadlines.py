"""Deadlines of a job that waits for nodes, for its image and for its start, and what becomes of one that is late.

Only jobs whose record has `Deadlines` have any.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from typing import Any

from nemo_runspec.backends.capabilities import Diagnoses
from nemo_runspec.backends.provider import Handle, JobRef, Provider, Results, changes
from nemo_runspec.diagnosis.phases import PHASES, Phase
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.duration import span
from nemo_runspec.errors import UserError
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.facts import JobFacts
from nemo_runspec.records.lifecycle import TimedOut
from nemo_runspec.records.record import is_over
from nemo_runspec.records.status import JobStatus
from nemo_runspec.remote.observed import ObservedJob
from nemo_runspec.remote.stop_requests import stop_each

TIMED_OUT = 124
"""Exit code of a job that was stopped as its time was up, as `timeout(1)` of GNU coreutils says it."""

_LOOKS = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before each look at jobs that were stopped; what has not ended then is looked at with the next question."""

FAILED_PULL = 300
"""Seconds for which nodes are held that cannot pull the image, as their platform says, where pull_timeout is longer."""

_WAITING = ("queued", "starting")
_BEFORE = frozenset({"planned", "submitting", "queued"})
"""States of a job that has not left its queue yet."""


def timed(record: JobRecord, seen: JobStatus, now: float) -> JobStatus:
    """What is seen, with `phase_since` (seconds since 1970) and, where its deadline has passed, `overdue`, in words.

    A pull that the platform says has failed, and will again (`failing` among its facts), has less time: its
    `failing_since` is noted too.
    A platform that was not asked what a job waits for says no phase: then it is in the one it was in, and not overdue.
    """
    phase = seen.facts.phase
    if is_over(seen.state) or record.deadlines is None:
        return seen
    same = record.state in (seen.state, "unknown", "lost")
    if phase is None and same and seen.state in _WAITING:
        return replace(seen, facts=_with_phase_of(seen.facts, record.facts))
    if phase is None or phase not in PHASES:
        return seen
    since = _since(record, phase, now)
    facts = replace(seen.facts, phase_since=since)
    limit = record.deadlines.limit(phase)
    if limit and now - since > limit:
        facts = replace(facts, overdue=f"for longer than {PHASES[phase].key} ({span(limit)})")
    elif limit and _is_failing(seen):
        facts = _failing(facts, _moment(record.facts.failing_since, now), now, min(limit, FAILED_PULL))
    return replace(seen, facts=facts)


def _failing(facts: JobFacts, since: float, now: float, limit: float) -> JobFacts:
    """The facts of a job whose pull fails. `limit`: seconds that it may."""
    if now - since <= limit:
        return replace(facts, failing_since=since)
    late = f"with a failed pull for longer than {span(limit)} (pull_timeout)"
    return replace(facts, failing_since=since, failed_for=span(limit), overdue=late)


def enforce(
    store: JobStore, provider: Provider, pairs: Sequence[ObservedJob], sleep: Callable[[float], None] = time.sleep
) -> list[ObservedJob]:
    """The same, after jobs whose time is up were stopped where their profile wants that, with a moment for their end.

    Jobs that were stopped so have failed, as far as they are over. All are on one machine. That they are being stopped
    is in their records first, so that a process that is killed meanwhile leaves the rest to the next one that asks.
    That one cannot be stopped is said with its being `overdue`, and keeps nobody from knowing how the others are.
    """
    late = [(_marked(store, provider, *pair), pair[1]) for pair in pairs if _is_to_stop(*pair)]
    problems = stop_each(provider, [_with_id(*pair) for pair in late], _key_of(late), hard=True)
    told = zip(late, problems, strict=True)
    now = {pair[0].name: _not_stopped(store, *pair, problem) for pair, problem in told if problem is not None}
    now |= _ended(provider, [pair for pair in late if pair[0].name not in now], sleep)
    return [as_timed_out(*now.get(record.name, (record, seen))) for record, seen in pairs]


def told_by(record: JobRecord, rest: Results) -> Results:
    """Results of a failed job; after a timeout, with the diagnosis made before it was stopped."""
    diagnosis = timed_out(record)
    return rest if diagnosis is None else replace(rest, diagnosis=diagnosis)


def timed_out(record: JobRecord) -> Diagnosis | None:
    """Diagnosis of a job that was stopped at a deadline; None for any other."""
    told = _timed_out(record)
    if told is None:
        return None
    known = {each.name for each in fields(Diagnosis)}
    given: dict[str, Any] = {key: value for key, value in told.diagnosis.items() if key in known}
    return Diagnosis(**given)


def _ended(
    provider: Provider, stopped: Sequence[ObservedJob], sleep: Callable[[float], None]
) -> Mapping[str, ObservedJob]:
    """Polls stopped jobs until they have ended, for a moment; as they were where the platform does not answer."""
    answers: Sequence[JobStatus] = [seen for _, seen in stopped]
    for pause in _LOOKS if stopped else ():
        sleep(pause)
        with suppress(UserError):
            answers = provider.status([JobRef(_with_id(*pair), pair[0].stopped_by) for pair in stopped])
        if all(is_over(seen.state) for seen in answers):
            break
    return {record.name: (record, seen) for (record, _), seen in zip(stopped, answers, strict=True)}


def _not_stopped(store: JobStore, record: JobRecord, seen: JobStatus, problem: UserError) -> ObservedJob:
    """A job that goes on although its time is up. What was refused surely was not done: it may end by itself."""
    if not problem.transient:
        record = store.note(record, deadlines=lambda now: now.deadlines and replace(now.deadlines, timed_out=None))
    late = f"{seen.facts.overdue or 'for too long'}, and cannot be stopped: {problem.what}"
    return record, replace(seen, facts=replace(seen.facts, overdue=late))


def _timed_out(record: JobRecord) -> TimedOut | None:
    return record.deadlines.timed_out if record.deadlines else None


def _key_of(late: Sequence[ObservedJob]) -> str:
    return PHASES[late[0][1].facts.waits_for].key if late else ""


def as_timed_out(record: JobRecord, seen: JobStatus) -> ObservedJob:
    """A job that was stopped as its time was up has failed, unless it came to a good end meanwhile."""
    told = _timed_out(record)
    if told is None or not is_over(seen.state) or seen.state == "succeeded":
        return record, seen
    return record, replace(seen, state="failed", reason=told.cause, exit_code=TIMED_OUT, signal=None)


def _since(record: JobRecord, phase: str, now: float) -> float:
    """When a phase began: when that was seen first; a job that nobody has asked about yet has been in the queue.

    One that has left the queue, and is there once more, waits since now.
    """
    known, since = record.facts.phase, record.facts.phase_since
    if known == phase and since is not None:
        return _moment(since, now)
    queued = record.when("queued") if {step.state for step in record.states} <= _BEFORE else None
    return queued.timestamp() if phase == "queue" and not known and queued is not None else now


def _moment(noted: float | None, now: float) -> float:
    """A time that was noted, now where none was."""
    return now if noted is None else min(noted, now)


def _is_failing(seen: JobStatus) -> bool:
    return seen.facts.phase == "pull" and seen.facts.failing


def _with_phase_of(facts: JobFacts, known: JobFacts) -> JobFacts:
    """The facts of a job that is in the phase it was in."""
    failing, since = facts.failing or known.failing, known.failing_since or facts.failing_since
    return replace(facts, phase=known.phase, phase_since=known.phase_since, failing=failing, failing_since=since)


def _is_to_stop(record: JobRecord, seen: JobStatus) -> bool:
    if record.ended or is_over(seen.state) or seen.gone or record.stopped_by:
        return False
    overdue = bool(seen.facts.overdue) and _action(record, seen.facts.waits_for) == "stop"
    return overdue or _timed_out(record) is not None


def _action(record: JobRecord, phase: str) -> str:
    """What its profile wants; by default a place in the queue is kept, and nodes are not held for nothing."""
    wanted = record.deadlines.action if record.deadlines else ""
    return wanted or ("warn" if phase == "queue" else "stop")


def _marked(store: JobStore, provider: Provider, record: JobRecord, seen: JobStatus) -> JobRecord:
    """The job, written down as being stopped, with what keeps it from running: afterwards that could not be seen."""
    if record.deadlines is None or record.deadlines.timed_out:
        return record
    phase = PHASES[seen.facts.waits_for]
    limit, doing = record.deadlines.limit(seen.facts.waits_for) or 0.0, phase.doing
    if _is_failing(seen):
        limit, doing = min(limit, FAILED_PULL), "could not pull the image"
    cause = f"{phase.key}: it {doing} for longer than {span(limit)}"
    found = _diagnosed(provider, record, seen) or _waited(phase, cause, seen)
    deadlines = replace(record.deadlines, timed_out=TimedOut(cause, asdict(found)))
    return store.note(record, handle=changes(record.handle, _with_id(record, seen)), deadlines=deadlines)


def _waited(phase: Phase, cause: str, seen: JobStatus) -> Diagnosis:
    from nemo_runspec.diagnosis.causes import REMEDIES  # takes a while to import

    return Diagnosis(phase.kind, cause, seen.facts.waiting, REMEDIES[phase.remedy])


def _diagnosed(provider: Provider, record: JobRecord, seen: JobStatus) -> Diagnosis | None:
    """What the platform makes of it; that it cannot tell is no reason to let the job wait on."""
    if not isinstance(provider, Diagnoses):
        return None
    try:
        return provider.diagnose(_with_id(record, seen), seen)
    except UserError:
        return None


def _with_id(record: JobRecord, seen: JobStatus) -> Handle:
    """The handle; that of a job which was only found by its name gets its id."""
    id = record.id or seen.facts.id
    return {**record.handle, "id": id} if id else record.handle
