"""Records of earlier releases, translated as they are read; nothing else knows what those looked like.

Until schema 2 what is now `attempt`, `deadlines`, `cancellation`, `relations`, `sent` and `staged` of a record stood in
its handle, and Slurm's word for a state was the fact `slurm_state`. A job's directory stood in handles even later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def as_now(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """A stored record in the form of this release, as plain data.

    Raises:
        TypeError, KeyError, AttributeError: a part of it is not what it should be.
    """
    handle = data.get("handle")
    if data["schema"] > 1:
        return {"job_dir": _directory(handle), **data}
    if not handle:
        return {**data, "schema": 2}
    handle, beside = beside_handle(handle)
    return {**data, "handle": handle, "facts": _facts(data.get("facts")), **beside, "schema": 2}


def beside_handle(stored: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A handle of schema 1 as its backend knows it, and the fields of a record that stood in it. Raises as `as_now`."""
    handle = dict(stored)
    beside = {
        "attempt": _attempt(handle),
        "deadlines": _deadlines(handle),
        "cancellation": _cancellation(handle),
        "sent": handle.pop("sent", None),
        "staged": bool(handle.pop("staged", False)),
        "relations": _relations(handle),
        "job_dir": _directory(handle),
    }
    return handle, beside


def _directory(handle: object) -> str:
    """A backend of somebody else's may have called it something else, and then nobody but it knows."""
    found = handle.get("job_dir") if isinstance(handle, Mapping) else None
    return found if isinstance(found, str) else ""


def _facts(facts: Mapping[str, Any] | None) -> dict[str, Any]:
    """An id may have been a number."""
    known = {**(facts or {})}
    renamed = {"platform_state": known.pop("slurm_state")} if "slurm_state" in known else {}
    named = {"id": str(known["id"])} if known.get("id") is not None else {}
    return {**known, **renamed, **named}


def _attempt(handle: dict[str, Any]) -> dict[str, Any] | None:
    """Clouds count attempts from 0 in the handle, and find theirs by it; Slurm, which counts by itself, does not."""
    tried, pending = handle.pop("tried", None) or (), handle.pop("again", None)
    avoid, avoids = handle.pop("avoid", None) or (), handle.pop("avoid_failed_nodes", False)
    if "attempt" not in handle:
        return None
    own = dict(handle)
    return {
        "number": int(handle["attempt"] or 0),
        "limit": int(handle.pop("attempts", None) or 1),
        "avoid_failed_nodes": bool(avoids),
        "avoid": [str(node) for node in avoid],
        "tried": [_failed(own, each) for each in tried],
        "pending": pending and _pending(own, pending),
    }


def _pending(handle: Mapping[str, Any], pending: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "sent": pending["sent"],
        "failed": _failed(handle, pending["tried"]),
        "after": str(pending.get("after") or ""),
        "avoid": [str(node) for node in pending.get("avoid") or ()],
        "resumed": bool(pending.get("resumed")),
        "absence": pending.get("absent"),
    }


def _failed(handle: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """An attempt was noted by what tells its workload from the others of the job."""
    own = {"id": told.get("id"), "workload": told.get("workload")}
    known = {key: value for key, value in {**handle, **own}.items() if value is not None}
    return {"handle": known, **{key: str(told.get(key) or "") for key in ("id", "nodes", "kind", "what")}}


def _deadlines(handle: dict[str, Any]) -> dict[str, Any] | None:
    limits, timed_out = handle.pop("deadlines", None), handle.pop("timed_out", None)
    return None if limits is None else {**limits, "timed_out": timed_out}


def _cancellation(handle: dict[str, Any]) -> dict[str, Any] | None:
    by, deleted = handle.pop("stopped_by", None), handle.pop("deleted", None)
    return {"by": str(by or ""), "deleted": bool(deleted)} if by or deleted else None


def _relations(handle: dict[str, Any]) -> dict[str, Any]:
    """Lists of names, which anybody may have written: what is none is left out."""
    old = ("needs", "made_for", "made", "awaited")
    needs, made_for, made, awaited = (handle.pop(key, None) for key in old)
    return {
        "needs": _items_of_type(str, needs),
        "made_for": _items_of_type(str, made_for),
        "on_demand": bool(made),
        "awaited_by": _items_of_type(dict, awaited),
    }


def _items_of_type(kind: type, listed: object) -> list[Any]:
    return [each for each in listed if isinstance(each, kind)] if isinstance(listed, (list, tuple)) else []
