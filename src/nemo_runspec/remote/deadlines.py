"""How long a job may wait for nodes, for its image and for its start, and what becomes of one that waits for longer.

Only jobs whose handle has `deadlines` have any: seconds by phase, and as `action` `warn`, `stop` or nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import cast

from nemo_runspec.errors import UserError
from nemo_runspec.jobs import JobRecord, JobStore
from nemo_runspec.jobs.record import is_over
from nemo_runspec.remote.display import span
from nemo_runspec.remote.provider import CloudProvider, Diagnosis, Handle, Provider, Rest, Seen

TIMED_OUT = 124
"""Exit code of a job that was stopped as its time was up, as `timeout(1)` of GNU coreutils says it."""

_LOOKS = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before each look at jobs that were stopped; what has not ended then is looked at with the next question."""

Pair = tuple[JobRecord, Seen]


@dataclass(frozen=True, slots=True)
class Phase:
    """What a job may wait for. `key`: of the profile. `doing`: in words, behind `it`. `kind`: of the diagnosis."""

    key: str
    doing: str
    kind: str
    remedy: str


PHASES: Mapping[str, Phase] = {
    "queue": Phase(
        "queue_timeout", "waited for nodes", "capacity", "ask for less or elsewhere, or wait longer: queue_timeout"
    ),
    "pull": Phase(
        "pull_timeout",
        "was pulling the image",
        "image",
        "see whether the image is there and may be pulled; a large one needs a longer pull_timeout",
    ),
    "start": Phase(
        "start_timeout", "was starting", "", "what the platform did: nemotron jobs events; or a longer start_timeout"
    ),
}
"""By the word that a platform's facts have as `phase`."""


def timed(record: JobRecord, seen: Seen, now: float) -> Seen:
    """What is seen, with `phase_since` (seconds since 1970) and, where its deadline has passed, `overdue`, in words."""
    phase = seen.facts.get("phase")
    if phase not in PHASES or is_over(seen.state) or "deadlines" not in record.handle:
        return seen
    since = _since(record, str(phase), now)
    facts = {**seen.facts, "phase_since": since}
    limit = record.handle["deadlines"].get(phase)
    if limit and now - since > limit:
        facts["overdue"] = f"for longer than {PHASES[str(phase)].key} ({span(limit)})"
    return replace(seen, facts=facts)


def enforce(
    store: JobStore, provider: Provider, pairs: Sequence[Pair], sleep: Callable[[float], None] = time.sleep
) -> list[Pair]:
    """The same, after jobs whose time is up were stopped where their profile wants that, with a moment for their end.

    Jobs that were stopped so have failed, as far as they are over. All are on one machine. That they are being stopped
    is in their records first, so that a process that is killed meanwhile leaves the rest to the next one that asks.

    Raises:
        UserError: the platform does not answer, or refuses.
    """
    late = [_marked(store, provider, *pair) for pair in pairs if _is_to_stop(*pair)]
    now = {record.name: (record, seen) for record, seen in _stopped(provider, late, sleep)}
    return [_judged(*now.get(record.name, (record, seen))) for record, seen in pairs]


def told_by(record: JobRecord, rest: Rest) -> Rest:
    """What is left of a job that failed; of one whose time was up, with what had kept it from running until then."""
    diagnosis = timed_out(record)
    return rest if diagnosis is None else replace(rest, diagnosis=diagnosis)


def timed_out(record: JobRecord) -> Diagnosis | None:
    """What kept a job from running until its time was up; None for one that was not stopped for that."""
    told = record.handle.get("timed_out")
    if not told:
        return None
    known = {each.name for each in fields(Diagnosis)}
    return Diagnosis(**{key: str(value) for key, value in told["diagnosis"].items() if key in known})


def _stopped(provider: Provider, late: Sequence[Pair], sleep: Callable[[float], None]) -> list[Pair]:
    if not late:
        return []
    handles = [_with_id(*pair) for pair in late]
    provider.stop(handles, PHASES[_phase_of(late[0][1])].key, hard=True)
    answers = _until_over(provider, handles, sleep)
    return [(record, seen) for (record, _), seen in zip(late, answers, strict=True)]


def _judged(record: JobRecord, seen: Seen) -> Pair:
    """A job that was stopped as its time was up has failed, unless it came to a good end meanwhile."""
    told = record.handle.get("timed_out")
    if not told or not is_over(seen.state) or seen.state == "succeeded":
        return record, seen
    return record, replace(seen, state="failed", reason=str(told["cause"]), exit_code=TIMED_OUT, signal=None)


def _since(record: JobRecord, phase: str, now: float) -> float:
    """When a phase began: when that was seen first; a job that nobody has asked about since has been in the queue."""
    known, since = record.facts.get("phase"), record.facts.get("phase_since")
    if known == phase and isinstance(since, (int, float)):
        return min(float(since), now)
    queued = record.when("queued")
    return queued.timestamp() if phase == "queue" and not known and queued is not None else now


def _is_to_stop(record: JobRecord, seen: Seen) -> bool:
    if is_over(seen.state) or seen.gone or record.handle.get("stopped_by"):
        return False
    overdue = "overdue" in seen.facts and _action(record, _phase_of(seen)) == "stop"
    return overdue or bool(record.handle.get("timed_out"))


def _action(record: JobRecord, phase: str) -> str:
    """What its profile wants; by default a place in the queue is kept, and nodes are not held for nothing."""
    return str(record.handle["deadlines"].get("action") or ("warn" if phase == "queue" else "stop"))


def _marked(store: JobStore, provider: Provider, record: JobRecord, seen: Seen) -> Pair:
    """The job, written down as being stopped, with what keeps it from running: afterwards that could not be seen."""
    if record.handle.get("timed_out"):
        return record, seen
    phase = PHASES[_phase_of(seen)]
    limit = record.handle["deadlines"][_phase_of(seen)]
    cause = f"{phase.key}: it {phase.doing} for longer than {span(limit)}"
    found = _diagnosed(provider, record, seen) or Diagnosis(
        phase.kind, cause, str(seen.facts.get("waiting") or ""), phase.remedy
    )
    handle = {**_with_id(record, seen), "timed_out": {"cause": cause, "diagnosis": asdict(found)}}
    return store.note(record, handle=handle), seen


def _diagnosed(provider: Provider, record: JobRecord, seen: Seen) -> Diagnosis | None:
    """What the platform makes of it; that it cannot tell is no reason to let the job wait on."""
    if not hasattr(provider, "diagnose"):
        return None
    try:
        return cast(CloudProvider, provider).diagnose(_with_id(record, seen), seen)
    except UserError:
        return None


def _phase_of(seen: Seen) -> str:
    phase = str(seen.facts.get("phase") or "")
    return phase if phase in PHASES else "start"


def _until_over(provider: Provider, handles: Sequence[Handle], sleep: Callable[[float], None]) -> Sequence[Seen]:
    answers: Sequence[Seen] = ()
    for pause in _LOOKS:
        sleep(pause)
        answers = provider.look(handles)
        if all(is_over(seen.state) for seen in answers):
            break
    return answers


def _with_id(record: JobRecord, seen: Seen) -> Handle:
    """The handle; that of a job which was only found by its name gets its id."""
    id = record.handle.get("id") or seen.facts.get("id")
    return {**record.handle, "id": id} if id else record.handle
