"""Asks platforms how jobs are and writes down what has changed: one question per machine for any number of jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.provider import Provider, Results
from nemo_runspec.errors import UserError
from nemo_runspec.records import JobEnded, JobRecord, JobStore
from nemo_runspec.records.absence import judged
from nemo_runspec.records.facts import JobFacts
from nemo_runspec.records.last_poll import note_asked
from nemo_runspec.records.lost import refresh_lost
from nemo_runspec.records.process import Life, life_of
from nemo_runspec.records.progress import keep_progress, progress_of
from nemo_runspec.records.record import STATES, now
from nemo_runspec.records.settle import settled
from nemo_runspec.records.status import JobStatus, never_submitted
from nemo_runspec.remote.deadlines import enforce, timed
from nemo_runspec.remote.late_results import read_again
from nemo_runspec.remote.observed import ObservedJob, PolledJob
from nemo_runspec.remote.resubmit import resume, submit_again
from nemo_runspec.remote.results import collected
from nemo_runspec.remote.unconfirmed import confirmed_status

_LOST_FOR_GOOD = 600.0
"""Seconds after which what a lost job has left is fetched, and its secrets are removed."""

Trouble = Callable[[str, Sequence[JobRecord]], object]
"""Takes what keeps jobs from being asked about, and which jobs those are."""


def is_remote(record: JobRecord) -> bool:
    """True for a job that a platform can be asked about."""
    return bool(record.handle)


def refresh(
    store: JobStore,
    records: Sequence[JobRecord],
    *,
    places: bool = False,
    trouble: Trouble | None = None,
) -> list[PolledJob]:
    """The records as they are now, in their order, each with what its platform said; None where it was not asked.

    A job that is lost is asked about like any other: it may be there. So is one that has ended and is `unread`.

    Args:
        places: also where waiting jobs stand in the queue.
        trouble: told once for each machine; without it that is raised, where a job of it has not ended.

    Raises:
        UserError: a machine does not answer, where there is no `trouble`.
    """
    answers: dict[str, PolledJob] = {}
    for executor, some in _by_executor(records).items():
        provider = get_backend(executor).load_provider()
        for group in _by_host(provider, some).values():
            try:
                answers |= _ask(store, provider, group, places)
            except UserError as error:
                if trouble is not None:
                    trouble(error.what, group)
                elif not all(record.ended for record in group):
                    raise
    return [answers.get(record.name, (record, None)) for record in records]


def current(store: JobStore, name: str, *, places: bool = False) -> JobRecord:
    """A job as it is now, wherever it runs; a platform is asked unless it has said how the job ended.

    Raises:
        UserError: there is no such job, it cannot be read, or it cannot be asked about.
    """
    record = settled(store, name)
    return refresh(store, [record], places=places)[0][0] if record.handle else refresh_lost(store, record)


def conclude(
    store: JobStore, provider: Provider, records: Sequence[JobRecord], seen: Sequence[JobStatus]
) -> list[JobRecord]:
    """Writes down how jobs ended, with what is left of them; their secrets are removed. One round trip per machine.

    A platform that cannot say what is left changes nothing about how they ended.

    Raises:
        UserError: the platform went out of reach meanwhile. Nothing is written down then: the next look does all of it,
            the removal of the secrets above all.
    """
    try:
        rests: Sequence[Results] = provider.collect([record.handle for record in records], seen)
    except UserError as error:
        if error.transient:
            raise
        rests = [Results() for _ in records]
    return [_finish(store, *job) for job in zip(records, seen, rests, strict=True)]


def apply(store: JobStore, record: JobRecord, seen: JobStatus) -> JobRecord:
    """Writes down the state of a job that goes on."""
    facts = _facts_now(record, seen)
    found = _new_id(record, seen)
    try:
        if seen.state != record.state or (seen.state != "queued" and seen.reason != record.reason):
            return store.saw(record, seen.state, seen.reason, facts=facts, **found)
        if facts.lasting() != record.facts.lasting() or found:
            return store.note(record, facts=facts, **found)
    except JobEnded as error:
        return error.record
    return record


def _facts_now(record: JobRecord, seen: JobStatus) -> JobFacts:
    """What is known of a job once its platform has said this."""
    return replace(_still_known(record, seen).updated(seen.facts), asked=now())


def _still_known(record: JobRecord, seen: JobStatus) -> JobFacts:
    """Where a job runs does not change while it runs; a platform that is asked about many may not say it again.

    What was known of a job that cannot be seen now is true again once it can.
    """
    known = record.facts
    if seen.state in ("unknown", "lost"):
        return JobFacts(
            nodes=known.nodes,
            attempt=known.attempt,
            attempts=known.attempts,
            phase=known.phase,
            phase_since=known.phase_since,
            failing=known.failing,
            failing_since=known.failing_since,
            absent=known.absent,
        )
    same = seen.state == record.state == "running" and seen.facts.id == known.id
    return JobFacts(nodes=known.nodes if same else "")


def _ask(store: JobStore, provider: Provider, group: Sequence[JobRecord], places: bool) -> dict[str, PolledJob]:
    ended = [record for record in group if record.ended]
    known = [resume(store, provider, _as_stored(store, record)) for record in group if not record.ended]
    result: dict[str, PolledJob] = {record.name: (record, None) for record, settled in known if not settled}
    asked = [*(record for record, settled in known if settled), *ended]
    pairs = _seen(provider, asked, places)
    open_ones, others = _current(store, [pair for pair in pairs if not pair[0].ended])
    result |= others | _followed(store, provider, open_ones)
    return result | read_again(store, provider, [pair for pair in pairs if pair[0].ended])


def _followed(store: JobStore, provider: Provider, pairs: Sequence[ObservedJob]) -> dict[str, PolledJob]:
    """Jobs that go on, as far as is known: what is seen of them now is acted on, and written down."""
    for record, _ in pairs:
        note_asked(store.folder(record.name))
    told = enforce(store, provider, [(record, _in_time(record, seen, time.time())) for record, seen in pairs])
    pairs, result = _current(store, told)
    result |= {record.name: (apply(store, record, seen), seen) for record, seen in pairs if _goes_on(record, seen)}
    _keep_progress(store, pairs)
    ended = [pair for pair in pairs if not _goes_on(*pair)]
    result |= {record.name: (_never_there(store, provider, record, seen), seen) for record, seen in ended if seen.gone}
    return result | _over(store, provider, [pair for pair in ended if not pair[1].gone])


def _keep_progress(store: JobStore, pairs: Sequence[ObservedJob]) -> None:
    """Writes down how far running jobs are, of those whose metrics were asked for."""
    for record, seen in pairs:
        if seen.metrics is not None and seen.state == "running":
            known = replace(record, facts=record.facts.updated(seen.facts))
            if progress := progress_of(seen.metrics, known, seen.started):
                keep_progress(store.folder(record.name), progress)


def _in_time(record: JobRecord, seen: JobStatus, now: float) -> JobStatus:
    """What is seen, with what only several looks can tell: whether a job that is not there is gone, and how long one
    has waited."""
    return timed(record, _as_begun(record, judged(record, seen, now)), now)


def _seen(provider: Provider, records: Sequence[JobRecord], places: bool) -> Sequence[ObservedJob]:
    found = confirmed_status(provider, records, places=places) if records else []
    return [(record, _counted(record, seen)) for record, seen in zip(records, found, strict=True)]


def _counted(record: JobRecord, seen: JobStatus) -> JobStatus:
    """What is seen, with which attempt that is, where nemotron counts them."""
    if record.attempt is None or seen.facts == JobFacts():
        return seen
    most = record.attempt.limit if record.attempt.limit > 1 else seen.facts.attempts
    return replace(seen, facts=replace(seen.facts, attempt=record.attempt.number, attempts=most))


def _current(store: JobStore, pairs: Sequence[ObservedJob]) -> tuple[list[ObservedJob], dict[str, PolledJob]]:
    """What was seen, with the records as others have written them meanwhile; and the jobs that became other ones on
    their platform, or are about to: what it said is of the old ones."""
    same: list[ObservedJob] = []
    others: dict[str, PolledJob] = {}
    for record, seen in pairs:
        now = _as_stored(store, record)
        if (now.attempt and now.attempt.pending) or (record.id and now.id != record.id):
            others[record.name] = (now, None)
        else:
            same.append((now, seen))
    return same, others


def _as_begun(record: JobRecord, seen: JobStatus) -> JobStatus:
    """A job all of whose nodes have run does not start again where one of them is not ready for a while."""
    if not seen.facts.begun:
        return seen
    doubted = record.state in ("unknown", "lost") and record.running_since is not None
    ran = record.state == "running" or doubted
    facts = replace(seen.facts, begun=False)
    if not ran:
        return replace(seen, facts=facts)
    return replace(seen, state="running", facts=replace(facts, phase=None, failing=False, waiting=""))


def _over(store: JobStore, provider: Provider, pairs: Sequence[tuple[JobRecord, JobStatus]]) -> dict[str, PolledJob]:
    """Jobs that have ended: submitted again where they may be, else written down."""
    anew = {record.name: submit_again(store, provider, record, seen) for record, seen in pairs}
    result: dict[str, PolledJob] = {name: found for name, found in anew.items() if found is not None}
    over = [(record, seen) for record, seen in pairs if record.name not in result]
    if over:
        records, answers = [pair[0] for pair in over], [pair[1] for pair in over]
        done = conclude(store, provider, records, answers)
        result |= {record.name: (record, seen) for record, seen in zip(done, answers, strict=True)}
    return result


def _may_change(record: JobRecord) -> bool:
    """True if another process may have given the job another handle: it is stopped, or submitted again, by whoever
    asks first."""
    return record.attempt is not None or record.deadlines is not None


def _as_stored(store: JobStore, record: JobRecord) -> JobRecord:
    """The record with the handle it has now; this process may hold an old one."""
    if not _may_change(record):
        return record
    try:
        return store.by_name(record.name)
    except UserError:
        return record


def _goes_on(record: JobRecord, seen: JobStatus) -> bool:
    """True if no end is to be written down. A lost job may be found again, and keeps its secrets for a while."""
    return not _is_concluded(record, seen)


def _is_concluded(record: JobRecord, seen: JobStatus) -> bool:
    if seen.state != "lost" or record.state != "lost":
        return seen.gone or STATES[seen.state].final
    since = record.when("lost")
    return since is not None and (datetime.now(timezone.utc) - since).total_seconds() > _LOST_FOR_GOOD


def _never_there(store: JobStore, provider: Provider, record: JobRecord, seen: JobStatus) -> JobRecord:
    """A job that no platform has: staged and waiting for a person's hand, still on its way, or lost on its way.

    What was sent of the latter is removed, its secrets among it, before that is written down.

    Raises:
        UserError: it cannot be removed now; the next look tries again.
    """
    if record.staged or (record.launcher and life_of(record.launcher, record.host) is Life.OTHER_MACHINE):
        return record
    provider.delete_files(record.handle)
    try:
        return store.finish(record, "failed", exit_code=1, cause=seen.reason or never_submitted().reason)
    except JobEnded as error:
        return error.record


def _finish(store: JobStore, record: JobRecord, seen: JobStatus, rest: Results) -> JobRecord:
    seen = _in_our_words(record, _for_want_of_input(store, record, seen))
    elapsed: dict[str, Any] = {}
    if seen.started is not None and seen.ended is not None:
        elapsed = {"elapsed": max(0.0, seen.ended - seen.started)}
    try:
        if seen.state == "lost":
            return store.saw(record, "lost", seen.reason, facts=_facts_now(record, seen))
        return store.finish(
            record,
            seen.state,
            facts=replace(seen.facts, asked=now()),
            **_new_id(record, seen),
            **collected(store, record, seen, rest),
            **elapsed,
        )
    except JobEnded as error:
        return error.record


def _for_want_of_input(store: JobStore, record: JobRecord, seen: JobStatus) -> JobStatus:
    """A job that its platform has ended because another one, which makes its input, did not succeed."""
    if seen.state != "cancelled" or seen.started is not None or record.stopped_by:
        return seen
    from nemo_runspec.remote.input_jobs import not_made_by

    maker = not_made_by(store, record)
    if maker is None:
        return seen
    why = f"its input was not made: {maker.name} is {maker.state}"
    state = "cancelled" if maker.state == "cancelled" else "failed"
    return replace(seen, state=state, reason=why, exit_code=maker.exit_code or 1)


def _in_our_words(record: JobRecord, seen: JobStatus) -> JobStatus:
    """A job that was stopped from here, with who wanted that, where its platform does not know."""
    by = record.stopped_by
    if seen.state != "cancelled" or not by or seen.by:
        return seen
    return replace(seen, reason=f"cancelled by {by}")


def _by_executor(records: Sequence[JobRecord]) -> Mapping[str, list[JobRecord]]:
    """The jobs that are worth asking about."""
    found: dict[str, list[JobRecord]] = {}
    for record in records:
        if is_remote(record) and (record.unread or not record.ended) and not _on_its_way(record):
            found.setdefault(record.executor, []).append(record)
    return found


def _by_host(provider: Provider, records: Sequence[JobRecord]) -> Mapping[str, list[JobRecord]]:
    found: dict[str, list[JobRecord]] = {}
    for record in records:
        found.setdefault(provider.endpoint(record.handle), []).append(record)
    return found


def _on_its_way(record: JobRecord) -> bool:
    """True while a process of this machine submits it."""
    if record.submitted or record.launcher is None:
        return False
    return life_of(record.launcher, record.host) is Life.ALIVE


def _new_id(record: JobRecord, seen: JobStatus) -> dict[str, Any]:
    """What the record of an adopted job gets: its id; it is no longer on its way. Nothing for a job that has one."""
    id = seen.facts.id
    return {"handle": {"id": id}, "sent": None} if id and not record.submitted else {}
