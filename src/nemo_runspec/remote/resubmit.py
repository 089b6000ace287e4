"""Jobs that failed through no fault of their own: submitted once more where their profile says so.

Only jobs whose record has an `Attempt` are. Slurm counts its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_runspec import paths
from nemo_runspec.backends.capabilities import ListsReplicas, Resubmits
from nemo_runspec.backends.provider import Handle, Provider, Replica, changes, handle_id
from nemo_runspec.diagnosis.kinds import Fault, kind_of
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.errors import UserError
from nemo_runspec.locks import Busy
from nemo_runspec.records import JobEnded, JobRecord, JobStore
from nemo_runspec.records.absence import BELIEVED, counted, is_believed
from nemo_runspec.records.facts import JobFacts
from nemo_runspec.records.lifecycle import FailedAttempt, PendingAttempt
from nemo_runspec.records.lock import locked
from nemo_runspec.records.status import JobStatus
from nemo_runspec.remote.deadlines import timed_out
from nemo_runspec.remote.log_mirror import fetch_all
from nemo_runspec.remote.unconfirmed import confirmed_status, id_in

if TYPE_CHECKING:
    from nemo_runspec.remote.observed import PolledJob


def submit_again(store: JobStore, provider: Provider, record: JobRecord, seen: JobStatus) -> PolledJob | None:
    """Resubmits a job that its platform lost. Returns its new state, or None if it has no attempts left.

    Several processes may ask at once: one of them does it, and the others find it done.

    Raises:
        Unreachable: it cannot be known, or done, now; the next question tries again.
    """
    if not isinstance(provider, Resubmits) or not _is_left(record, seen):
        return None
    diagnosis = timed_out(record) or provider.diagnose(record.handle, seen)
    if diagnosis is None or not diagnosis.retry:
        return None
    try:
        with _alone(store, record):
            now = store.by_name(record.name)
            if now.ended or _number(now) != _number(record):
                return now, None
            return _submit(store, provider, now, seen, diagnosis) if _is_left(now, seen) else None
    except Busy:
        return store.by_name(record.name), None


def resume(store: JobStore, provider: Provider, record: JobRecord) -> tuple[JobRecord, bool]:
    """A job whose next attempt somebody has begun to submit: that is finished, or taken back where it is to stop.

    Returns: the job, and whether its platform is to be asked about it now.

    Raises:
        Unreachable: it cannot be known, or done, now; the next question tries again.
    """
    if not isinstance(provider, Resubmits) or _pending(record) is None or record.ended:
        return record, True
    try:
        with _alone(store, record):
            now = store.by_name(record.name)
            if _pending(now) is None or now.ended:
                return now, True
            found = _resumed(store, provider, now)
            return (found[0], False) if found else (store.by_name(record.name), True)
    except Busy:
        return store.by_name(record.name), False


def _resumed(store: JobStore, provider: Resubmits, record: JobRecord) -> PolledJob | None:
    pending = _pending(record)
    if pending and not record.stopped_by:
        record = _note_pending(store, record, replace(pending, sent=time.time(), resumed=True))
    return (_taken_back if record.stopped_by else _send)(store, provider, record)


@contextmanager
def _alone(store: JobStore, record: JobRecord) -> Iterator[None]:
    """Only one process submits a job again. Raises `Busy` where another one does."""
    folder = store.folder(record.name) / "attempts"
    paths.private_dir(folder)
    with locked(folder, wait=False):
        yield


def _is_left(record: JobRecord, seen: JobStatus) -> bool:
    """True if a job has failed, by itself, and may run once more."""
    if record.attempt is None or seen.state != "failed" or seen.gone:
        return False
    return not record.stopped_by and not record.attempt.is_last


def _submit(
    store: JobStore, provider: Resubmits, record: JobRecord, seen: JobStatus, diagnosis: Diagnosis
) -> PolledJob | None:
    """Writes down that there will be one more attempt, and with what, before it is sent. Not where it was stopped
    while its log was fetched."""
    _keep_log(provider, record, store.folder(record.name))
    avoid = tuple(_nodes_to_avoid(provider, record, seen, diagnosis))
    after = kind_of(diagnosis.kind).event or diagnosis.kind
    now = _note_pending(store, record, PendingAttempt(time.time(), _failed(record, seen, diagnosis), after, avoid))
    if now.ended:
        return now, None
    if now.stopped_by:
        _note_pending(store, now, None)
        return None
    return _send(store, provider, now)


def _send(store: JobStore, provider: Resubmits, record: JobRecord) -> PolledJob | None:
    """Submits the attempt that is written down, or finds it, if it was sent before."""
    pending = _pending(record)
    if pending is None:
        return None
    try:
        next = _next(provider, record)
        found = provider.resubmit(next, pending.avoid, store.folder(record.name), resumed=pending.resumed)
    except UserError as error:
        if error.transient:
            raise
        _note_pending(store, record, None)
        return None  # it stays failed, for the reason it failed first
    return _begun(store, provider, record, found)


def _taken_back(store: JobStore, provider: Resubmits, record: JobRecord) -> PolledJob | None:
    """The attempt that is written down, if it was sent; it is ended then, as somebody wanted the job to stop.

    One that is not there may be hidden by a stray answer: it is `unknown` until that is believed.
    """
    attempt, pending = record.attempt, _pending(record)
    if attempt is None or pending is None:
        return None
    handle = _next(provider, record)
    [seen] = confirmed_status(provider, [replace(record, handle=handle, sent=pending.sent)])
    if not seen.gone:
        return _begun(store, provider, record, {**handle, "id": id_in(seen)})
    absence = counted(pending.absence, time.time(), stop=True)
    if is_believed(absence):
        _note_pending(store, record, None)
        return None
    why = f"attempt {attempt.number + 2} may have been submitted, and is not there; {BELIEVED}"
    try:
        noted = replace(attempt, pending=replace(pending, absence=absence))
        return store.saw(record, "unknown", why, attempt=noted), None
    except JobEnded as error:
        return error.record, None


def _begun(store: JobStore, provider: Resubmits, record: JobRecord, found: Handle) -> PolledJob:
    """Writes down the attempt that is there now. It is ended where the job was stopped, or has ended, meanwhile."""
    before, pending = record.attempt, _pending(record)
    assert before is not None and pending is not None, "it is begun because that is on record"
    tried, avoid = (*before.tried, pending.failed), pending.avoid or before.avoid
    attempt = replace(before, number=before.number + 1, tried=tried, avoid=avoid, pending=None)
    next = _next(provider, record)
    left = {key: found.get(key) for key in record.handle if key not in next}
    waits = JobFacts(id=handle_id(found), phase="queue", phase_since=time.time())
    known = {
        "handle": {**left, **changes(record.handle, found)},
        "attempt": attempt,
        "deadlines": record.deadlines and replace(record.deadlines, timed_out=None),
        "facts": replace(waits, attempt=attempt.number, attempts=attempt.limit),
    }
    reason = f"attempt {attempt.number + 1} of {attempt.limit} after {pending.after}"
    try:
        now = store.saw(record, "queued", reason, **known)
    except JobEnded as error:  # somebody else has written down its end meanwhile: nobody would watch over this one
        provider.stop([found], "nemotron, as the job had ended", hard=True)
        return error.record, None
    if now.stopped_by:
        provider.stop([now.handle], now.stopped_by, hard=True)
    return now, JobStatus("queued", facts=now.facts)


def _keep_log(provider: Resubmits, record: JobRecord, folder: Path) -> None:
    """What the failed attempt has written comes here before its pods are forgotten, as far as it can be read."""
    with suppress(UserError):
        fetch_all(provider, record.handle, folder)


def _nodes_to_avoid(provider: Resubmits, record: JobRecord, seen: JobStatus, diagnosis: Diagnosis) -> Sequence[str]:
    """Nodes that were at fault in any attempt, where the profile wants to do without them."""
    before = record.attempt.avoid if record.attempt else ()
    if not (record.attempt and record.attempt.avoid_failed_nodes) or diagnosis.fault is not Fault.NODE:
        return before
    replicas: Sequence[Replica] = ()
    if isinstance(provider, ListsReplicas):
        with suppress(UserError):
            replicas = provider.replicas(record.handle)
    known = seen.facts.nodes or record.facts.nodes
    nodes = [node.strip() for node in known.split(",") if node.strip()]
    nodes = list(dict.fromkeys([*nodes, *(replica.node for replica in replicas if replica.node)]))
    named = [node for node in nodes if node in diagnosis.nodes]
    troubled = [replica.node for replica in replicas if replica.node and replica.problem]
    alone = nodes if len(nodes) == 1 else []
    return list(dict.fromkeys([*before, *(named or troubled or alone)]))


def _failed(record: JobRecord, seen: JobStatus, diagnosis: Diagnosis) -> FailedAttempt:
    """What is kept of an attempt that failed."""
    nodes = seen.facts.nodes or record.facts.nodes
    return FailedAttempt(dict(record.handle), record.id, nodes, diagnosis.kind, diagnosis.what)


def _pending(record: JobRecord) -> PendingAttempt | None:
    return record.attempt.pending if record.attempt else None


def _note_pending(store: JobStore, record: JobRecord, pending: PendingAttempt | None) -> JobRecord:
    """Writes down the attempt that is being submitted, None for that there is none any more."""
    return store.note(record, attempt=lambda now: now.attempt and replace(now.attempt, pending=pending))


def _next(provider: Resubmits, record: JobRecord) -> Handle:
    """How the attempt after this one is found; its number is the record's count, which the handle only repeats."""
    return provider.next_attempt(record.handle, _number(record) + 1)


def _number(record: JobRecord) -> int:
    return record.attempt.number if record.attempt else 0
