"""run:ai's workloads: by which name and id a job is known, and how it was when this process saw it last."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from nemo_runspec.backends.cloud.api import JsonTable
from nemo_runspec.backends.dgxcloud.api import RunaiApi
from nemo_runspec.backends.dgxcloud.states import mapping_of
from nemo_runspec.backends.provider import Handle
from nemo_runspec.records.record import is_over
from nemo_runspec.transport.reading import text

_TRUST = 60.0
"""Seconds for which a job that went on when it was last seen is taken to go on: whoever follows it looks more often."""

_KNOWN: dict[str, tuple[float, str]] = {}
"""How this process has last seen workloads, by their ids: when, and the state."""


def workload_name(handle: Handle) -> str:
    """The name run:ai knows a job by; that of a further attempt is longer than the job's."""
    return str(handle.get("workload") or handle["name"])


def workload_id(row: Mapping[str, Any]) -> str:
    """The id by which a workload is asked about, '' where it is not said."""
    return text(row.get("id")) or text(row.get("workloadId"))


def find(api: RunaiApi, handle: Handle) -> JsonTable | None:
    """The workload of a job's name, None where there is none. Several requests only where run:ai has many."""
    name = workload_name(handle)
    return next((row for row in named(api, handle) if row.get("name") == name and workload_id(row)), None)


def is_over_now(api: RunaiApi, handle: Handle) -> bool:
    """True if a job with an id is over, as it was just seen by anybody of this process; else one request."""
    return is_over(state_now(api, handle))


def state_now(api: RunaiApi, handle: Handle) -> str:
    """How such a job is: `is_over_now` in a word."""
    _, state = _KNOWN.get(str(handle["id"])) or (0.0, "unknown")
    return state if is_over(state) else recent_state(str(handle["id"])) or state_of(api, handle)


def state_of(api: RunaiApi, handle: Handle) -> str:
    """Our word for how a job with an id is now, `unknown` where its id leads to none. One request."""
    row = api.detail(str(handle["id"]))
    state = "unknown" if row is None else mapping_of(row).state
    remember(str(handle["id"]), state)
    return state


def remember(id: str, state: str) -> None:
    """Notes how a workload is now, for whoever of this process wants to know it next."""
    _KNOWN[id] = (time.monotonic(), state)


def recent_state(id: str) -> str:
    """The state in which this process has seen a workload a moment ago, '' for none."""
    when, state = _KNOWN.get(id) or (0.0, "")
    return state if time.monotonic() - when < _TRUST else ""


def named(api: RunaiApi, handle: Handle, *, deleted: bool = False) -> Iterator[JsonTable]:
    """The workloads that are called as a job's is, or those of them that were deleted."""
    return api.workloads([f"name=={workload_name(handle)}", project_filter(handle)], deleted=deleted)


def project_filter(handle: Handle) -> str:
    """The filter of a list for the workloads of a job's project."""
    return f"projectId=={handle['project_id']}" if handle.get("project_id") else f"projectName=={handle['project']}"
