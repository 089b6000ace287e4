"""Jobs that failed through no fault of their own: submitted once more where their profile says so.

Only jobs whose handle has an `attempt` are: the one that runs, from 0; `attempts` is how many there may be. Slurm
counts its own.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_runspec import paths
from nemo_runspec.diagnosis.kinds import Fault, kind_of
from nemo_runspec.diagnosis.model import Diagnosis
from nemo_runspec.errors import UserError
from nemo_runspec.jobs import JobEnded, JobRecord, JobStore
from nemo_runspec.jobs.lock import locked
from nemo_runspec.jobs.record import ABSENT
from nemo_runspec.locks import Busy
from nemo_runspec.remote.absence import BELIEVED, counted, is_believed, parse_looks
from nemo_runspec.remote.capabilities import ListsReplicas, Resubmits
from nemo_runspec.remote.deadlines import timed_out
from nemo_runspec.remote.log_mirror import fetch_all
from nemo_runspec.remote.provider import Handle, JobStatus, Provider, Replica, changes
from nemo_runspec.remote.unconfirmed import id_in, look

if TYPE_CHECKING:
    from nemo_runspec.remote.refresh import Found

AGAIN = "again"
"""Of a handle: the attempt that is being sent. Whoever is cut off then leaves the rest to the next one that asks, who
notes that it is `resumed`: it may have been sent."""


def submit_again(store: JobStore, provider: Provider, record: JobRecord, seen: JobStatus) -> Found | None:
    """The job as it is once it was submitted again, None where it is over.

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
            if now.ended or _attempt(now) != _attempt(record):
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
    if not isinstance(provider, Resubmits) or AGAIN not in record.handle or record.ended:
        return record, True
    try:
        with _alone(store, record):
            now = store.by_name(record.name)
            if AGAIN not in now.handle or now.ended:
                return now, True
            found = _resumed(store, provider, now)
            return (found[0], False) if found else (store.by_name(record.name), True)
    except Busy:
        return store.by_name(record.name), False


def _resumed(store: JobStore, provider: Resubmits, record: JobRecord) -> Found | None:
    if not record.handle.get("stopped_by"):
        record = store.note(record, handle={AGAIN: {**record.handle[AGAIN], "sent": time.time(), "resumed": True}})
    return (_taken_back if record.handle.get("stopped_by") else _send)(store, provider, record)


@contextmanager
def _alone(store: JobStore, record: JobRecord) -> Iterator[None]:
    """Only one process submits a job again. Raises `Busy` where another one does."""
    folder = store.folder(record.name) / "attempts"
    paths.private_dir(folder)
    with locked(folder, wait=False):
        yield


def _is_left(record: JobRecord, seen: JobStatus) -> bool:
    """Whether a job has failed, by itself, and may run once more."""
    if "attempt" not in record.handle or seen.state != "failed" or seen.gone:
        return False
    if record.handle.get("stopped_by"):
        return False
    return _attempt(record) + 1 < int(record.handle.get("attempts") or 1)


def _submit(
    store: JobStore, provider: Resubmits, record: JobRecord, seen: JobStatus, diagnosis: Diagnosis
) -> Found | None:
    """Writes down that there will be one more attempt, and with what, before it is sent. Not where it was stopped
    while its log was fetched."""
    _keep_log(provider, record, store.folder(record.name))
    avoid = list(_nodes_to_avoid(provider, record, seen, diagnosis))
    note = {
        "avoid": avoid,
        "tried": _told(record, seen, diagnosis),
        "after": kind_of(diagnosis.kind).event or diagnosis.kind,
        "sent": time.time(),
    }
    now = store.note(record, handle={AGAIN: note})
    if now.ended:
        return now, None
    if now.handle.get("stopped_by"):
        store.note(now, handle={AGAIN: None})
        return None
    return _send(store, provider, now)


def _send(store: JobStore, provider: Resubmits, record: JobRecord) -> Found | None:
    """Submits the attempt that is written down, or finds it, if it was sent before."""
    avoid = record.handle[AGAIN]["avoid"]
    try:
        found = provider.resubmit(record.handle, JobStatus("failed"), avoid, store.folder(record.name))
    except UserError as error:
        if error.transient:
            raise
        store.note(record, handle={AGAIN: None})
        return None  # it stays failed, for the reason it failed first
    return _begun(store, provider, record, found)


def _taken_back(store: JobStore, provider: Resubmits, record: JobRecord) -> Found | None:
    """The attempt that is written down, if it was sent; it is ended then, as somebody wanted the job to stop.

    One that is not there may be hidden by a stray answer: it is `unknown` until that is believed.
    """
    handle = {**provider.next_attempt(record.handle), "sent": record.handle[AGAIN]["sent"]}
    [seen] = look(provider, [handle])
    if not seen.gone:
        return _begun(store, provider, record, {**handle, "id": id_in(seen)})
    told = counted(parse_looks(record.handle[AGAIN].get(ABSENT)), time.time(), stop=True)
    if is_believed(told):
        store.note(record, handle={AGAIN: None})
        return None
    why = f"attempt {handle['attempt'] + 1} may have been submitted, and is not there; {BELIEVED}"
    try:
        return store.saw(record, "unknown", why, handle={AGAIN: {**record.handle[AGAIN], ABSENT: told}}), None
    except JobEnded as error:
        return error.record, None


def _begun(store: JobStore, provider: Resubmits, record: JobRecord, found: Handle) -> Found:
    """Writes down the attempt that is there now. It is ended where the job was stopped, or has ended, meanwhile."""
    note, attempt, attempts = record.handle[AGAIN], _attempt(record) + 1, int(record.handle["attempts"])
    own = {AGAIN: None, "timed_out": None, "attempt": attempt, "tried": [*_tried(record), note["tried"]]}
    own |= {"avoid": note["avoid"]} if note["avoid"] else {}
    left = {key: found.get(key) for key in record.handle if key not in provider.next_attempt(record.handle)}
    handle = {**left, **changes(record.handle, found), **own}
    for key in ("stopped_by", "sent"):
        handle.pop(key, None)
    facts = {"id": found.get("id"), "attempt": attempt, "attempts": attempts}
    facts |= {"phase": "queue", "phase_since": time.time()}
    reason = f"attempt {attempt + 1} of {attempts} after {note['after']}"
    try:
        now = store.saw(record, "queued", reason, handle=handle, facts=facts)
    except JobEnded as error:  # somebody else has written down its end meanwhile: nobody would watch over this one
        provider.stop([found], "nemotron, as the job had ended", hard=True)
        return error.record, None
    if now.handle.get("stopped_by"):
        provider.stop([now.handle], str(now.handle["stopped_by"]), hard=True)
    return now, JobStatus("queued", facts=facts)


def _keep_log(provider: Resubmits, record: JobRecord, folder: Path) -> None:
    """What the failed attempt has written comes here before its pods are forgotten, as far as it can be read."""
    with suppress(UserError):
        fetch_all(provider, record.handle, folder)


def _nodes_to_avoid(provider: Resubmits, record: JobRecord, seen: JobStatus, diagnosis: Diagnosis) -> Sequence[str]:
    """Nodes that were at fault in any attempt, where the profile wants to do without them."""
    before = [str(node) for node in record.handle.get("avoid") or ()]
    if not record.handle.get("avoid_failed_nodes") or diagnosis.fault is not Fault.NODE:
        return before
    replicas: Sequence[Replica] = ()
    if isinstance(provider, ListsReplicas):
        with suppress(UserError):
            replicas = provider.replicas(record.handle)
    known = str(seen.facts.get("nodes") or record.facts.get("nodes") or "")
    nodes = [node.strip() for node in known.split(",") if node.strip()]
    nodes = list(dict.fromkeys([*nodes, *(replica.node for replica in replicas if replica.node)]))
    text = f"{diagnosis.what} {diagnosis.evidence}"
    named = [node for node in nodes if re.search(rf"(?<![\w.-]){re.escape(node)}(?![\w-])", text)]
    troubled = [replica.node for replica in replicas if replica.node and replica.problem]
    alone = nodes if len(nodes) == 1 else []
    return list(dict.fromkeys([*before, *(named or troubled or alone)]))


def _told(record: JobRecord, seen: JobStatus, diagnosis: Diagnosis) -> dict[str, Any]:
    """What is kept of an attempt that failed."""
    nodes = seen.facts.get("nodes") or record.facts.get("nodes") or ""
    known = {key: record.handle.get(key) for key in ("id", "workload") if record.handle.get(key)}
    return {**known, "nodes": nodes, "kind": diagnosis.kind, "what": diagnosis.what}


def _tried(record: JobRecord) -> Sequence[Any]:
    return tuple(record.handle.get("tried") or ())


def _attempt(record: JobRecord) -> int:
    return int(record.handle.get("attempt") or 0)
