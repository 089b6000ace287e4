"""When a workload began, as run:ai's history of it tells: a workload that was made need not ever have run."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any

from nemo_runspec.backends.dgxcloud.api import Row, RunaiApi
from nemo_runspec.transport.web import Refused


def began(api: RunaiApi, id: str) -> float | None:
    """When the first of a workload's containers started, seconds since 1970; None of one that never ran. One request.

    `spec.event` and `spec.phaseUpdate` of `GET /workloads/ID/history` of run:ai's API, 2.24.
    """
    try:
        records = api.history(id)
    except Refused:
        return None
    return min((when for each in records if (when := _ran_at(each)) is not None), default=None)


def never_ran(api: RunaiApi, id: str) -> bool:
    """Whether a workload is known not to have run. One request; without a history of it that is not known."""
    try:
        records = api.history(id)
    except Refused:
        return False
    return bool(records) and all(_ran_at(each) is None for each in records)


def moment(text: Any) -> float | None:
    """Seconds since 1970 of a date of the API (ISO 8601)."""
    if not text:
        return None
    with suppress(ValueError):
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    return None


def _ran_at(record: Row) -> float | None:
    """When a record was made, where it says that something ran."""
    spec, meta = _table(record.get("spec")), _table(record.get("meta"))
    phase = _table(spec.get("phaseUpdate")).get("phase")
    ran = phase == "Running" or _table(spec.get("event")).get("reason") == "Started"
    return moment(meta.get("creationTimestamp") or meta.get("createdAt")) if ran else None


def _table(value: Any) -> Row:
    return value if isinstance(value, dict) else {}
