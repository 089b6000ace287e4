"""When a workload began, as run:ai's history of it tells: a workload that was made need not ever have run."""

from __future__ import annotations

from nemo_runspec.backends.cloud.optional_requests import Aside
from nemo_runspec.backends.dgxcloud.api import Row, RunaiApi
from nemo_runspec.transport.reading import moment, table

HISTORY = "history"


def began(api: RunaiApi, aside: Aside, id: str) -> float | None:
    """When the first of a workload's containers started, seconds since 1970; None of one that never ran. One request.

    `spec.event` and `spec.phaseUpdate` of `GET /workloads/ID/history` of run:ai's API, 2.24.
    """
    records = aside.listed(HISTORY, api.history, id)
    return min((when for each in records if (when := _ran_at(each)) is not None), default=None)


def never_ran(api: RunaiApi, aside: Aside, id: str) -> bool:
    """Whether a workload is known not to have run. One request; without a history of it that is not known."""
    records = aside.listed(HISTORY, api.history, id)
    return bool(records) and all(_ran_at(each) is None for each in records)


def _ran_at(record: Row) -> float | None:
    """When a record was made, where it says that something ran."""
    spec, meta = table(record.get("spec")), table(record.get("meta"))
    phase = table(spec.get("phaseUpdate")).get("phase")
    ran = phase == "Running" or table(spec.get("event")).get("reason") == "Started"
    return moment(meta.get("creationTimestamp") or meta.get("createdAt")) if ran else None
