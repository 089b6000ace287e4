"""Jobs that failed through no fault of their own: submitted once more where their profile says so.

Only jobs whose handle has an `attempt` are: the one that runs, from 0; `attempts` is how many there may be. Slurm
counts its own.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from nemo_runspec import paths
from nemo_runspec.errors import UserError
from nemo_runspec.jobs import JobEnded, JobRecord, JobStore
from nemo_runspec.jobs.lock import Busy, locked
from nemo_runspec.remote.deadlines import timed_out
from nemo_runspec.remote.mirror import fetch_all
from nemo_runspec.remote.provider import CloudProvider, Diagnosis, Provider, Seen

if TYPE_CHECKING:
    from nemo_runspec.remote.refresh import Found

KINDS = ("eviction", "node")
"""Kinds of a diagnosis after which a job is submitted again. What a job did itself it would do again."""


def submit_again(store: JobStore, provider: Provider, record: JobRecord, seen: Seen) -> Found | None:
    """The job as it is once it was submitted again, None where it is over.

    Several processes may ask at once: one of them does it, and the others find it done.

    Raises:
        Unreachable: it cannot be known, or done, now; the next question tries again.
    """
    if not _is_left(record, seen):
        return None
    cloud = cast(CloudProvider, provider)
    diagnosis = timed_out(record) or cloud.diagnose(record.handle, seen)
    if diagnosis is None or diagnosis.kind not in KINDS:
        return None
    folder = store.folder(record.name) / "attempts"
    paths.private_dir(folder)
    try:
        with locked(folder, wait=False):
            now = store.by_name(record.name)
            if now.ended or _attempt(now) != _attempt(record):
                return now, None
            return _submit(store, cloud, now, seen, diagnosis)
    except Busy:
        return store.by_name(record.name), None


def _is_left(record: JobRecord, seen: Seen) -> bool:
    """Whether a job has failed, by itself, and may run once more."""
    if "attempt" not in record.handle or seen.state != "failed" or seen.gone:
        return False
    if record.handle.get("stopped_by"):
        return False
    return _attempt(record) + 1 < int(record.handle.get("attempts") or 1)


def _submit(
    store: JobStore, provider: CloudProvider, record: JobRecord, seen: Seen, diagnosis: Diagnosis
) -> Found | None:
    folder = store.folder(record.name)
    _keep_log(provider, record, folder)
    avoid = _nodes_to_avoid(provider, record, seen, diagnosis)
    try:
        found = provider.again(record.handle, seen, avoid, folder)
    except UserError as error:
        if getattr(error, "transient", False):
            raise
        return None  # it stays failed, for the reason it failed first
    attempt, attempts = _attempt(record) + 1, int(record.handle["attempts"])
    handle = {**record.handle, **found, "attempt": attempt, "tried": [*_tried(record), _told(record, seen, diagnosis)]}
    handle |= {"avoid": list(avoid)} if avoid else {}
    handle.pop("timed_out", None)
    reason = f"attempt {attempt + 1} of {attempts} after {_words(diagnosis)}"
    facts = {"id": handle.get("id"), "attempt": attempt, "attempts": attempts}
    facts |= {"phase": "queue", "phase_since": time.time()}
    try:
        return store.saw(record, "queued", reason, handle=handle, facts=facts), Seen("queued", facts=facts)
    except JobEnded as error:  # somebody else has written down its end meanwhile: nobody would watch over this one
        provider.stop([handle], "nemotron, as the job had ended", hard=True)
        return error.record, None


def _keep_log(provider: CloudProvider, record: JobRecord, folder: Path) -> None:
    """What the failed attempt has written comes here before its pods are forgotten."""
    try:
        fetch_all(provider, record.handle, folder)
    except UserError as error:
        if getattr(error, "transient", False):
            raise


def _nodes_to_avoid(provider: CloudProvider, record: JobRecord, seen: Seen, diagnosis: Diagnosis) -> Sequence[str]:
    """Nodes that were at fault in any attempt, where the profile wants to do without them."""
    before = [str(node) for node in record.handle.get("avoid") or ()]
    if not record.handle.get("avoid_failed_nodes") or diagnosis.kind != "node":
        return before
    replicas = provider.replicas(record.handle)
    known = str(seen.facts.get("nodes") or record.facts.get("nodes") or "")
    nodes = [node.strip() for node in known.split(",") if node.strip()]
    nodes = list(dict.fromkeys([*nodes, *(replica.node for replica in replicas if replica.node)]))
    text = f"{diagnosis.what} {diagnosis.evidence}"
    named = [node for node in nodes if re.search(rf"(?<![\w.-]){re.escape(node)}(?![\w-])", text)]
    troubled = [replica.node for replica in replicas if replica.node and replica.problem]
    alone = nodes if len(nodes) == 1 else []
    return list(dict.fromkeys([*before, *(named or troubled or alone)]))


def _told(record: JobRecord, seen: Seen, diagnosis: Diagnosis) -> dict[str, Any]:
    """What is kept of an attempt that failed."""
    nodes = seen.facts.get("nodes") or record.facts.get("nodes") or ""
    return {"id": record.handle.get("id"), "nodes": nodes, "kind": diagnosis.kind, "what": diagnosis.what}


def _tried(record: JobRecord) -> Sequence[Any]:
    return tuple(record.handle.get("tried") or ())


def _attempt(record: JobRecord) -> int:
    return int(record.handle.get("attempt") or 0)


def _words(diagnosis: Diagnosis) -> str:
    return "eviction" if diagnosis.kind == "eviction" else f"a bad {diagnosis.kind}"
