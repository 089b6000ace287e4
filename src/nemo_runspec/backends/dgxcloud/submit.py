"""Submits a workload once, however often a request breaks: its name is unique, and run:ai takes a name once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from nemo_runspec.backends.cloud.handle import PodHandle
from nemo_runspec.backends.cloud.submit_once import submit_once
from nemo_runspec.backends.dgxcloud.api import RunaiApi
from nemo_runspec.backends.dgxcloud.workloads import find, workload_id, workload_name
from nemo_runspec.backends.provider import Handle
from nemo_runspec.transport.reading import tables, text
from nemo_runspec.transport.web import Malformed, NotKnown, Refused

_MAYBE_THERE = frozenset({400, 409, 422})
"""Statuses by which a name that is taken may be refused."""

_PAUSES = (0.5, 1.5, 5.0)
"""Seconds before each further try, once it is not known whether one came through."""


def submit(
    api: RunaiApi, handle: Handle, payload: Mapping[str, Any], sleep: Callable[[float], None] = time.sleep
) -> dict[str, Any]:
    """Posts the workload; the handle with its id.

    A name is asked for only where a workload may be there already: after a request that broke, and after a refusal,
    which may be that of a second request for a workload whose first one came through.

    Raises:
        UserError: run:ai refuses it. NotKnown: it is still not known whether it was submitted.
    """
    id, _ = submit_once(
        lambda: _posted(api, handle, payload),
        lambda: _found(api, handle),
        before=(),
        after=(*((0.0, pause) for pause in _PAUSES), (0.0,)),
        say=lambda trouble: None,
        check=False,
        sleep=sleep,
    )
    return PodHandle(handle).made(id)


def _posted(api: RunaiApi, handle: Handle, payload: Mapping[str, Any]) -> str:
    """The id. A name that is taken is our own, as it is unique, though the list may not have it yet."""
    try:
        answer = api.create(str(handle["kind"]), payload)
    except Refused as error:
        found = _found(api, handle) if error.status in _MAYBE_THERE else None
        if found is not None:
            return found
        if _is_taken(error):
            raise NotKnown(f"{_explained(error).what}; it may be ours", where=error.where) from None
        raise _explained(error) from None
    id = text(answer.get("workloadId")) or text(answer.get("id"))
    if not id:
        raise NotKnown(f"run:ai took {workload_name(handle)} and does not say its id", where=api.web.base)
    return id


def _found(api: RunaiApi, handle: Handle) -> str | None:
    """The workload's id where the list has it. A list that is none does not have it yet: its name keeps it single."""
    with suppress(Malformed):
        if workload := find(api, handle):
            return workload_id(workload)
    return None


def _is_taken(error: Refused) -> bool:
    return error.status == 409 or (error.status in _MAYBE_THERE and "already exist" in str(error.body).casefold())


def _explained(error: Refused) -> Refused:
    """Every single thing that run:ai finds wrong with a workload, in its own words."""
    body = error.body if isinstance(error.body, dict) else {}
    issues = tables(body.get("complianceIssues"))
    if issues:
        said = "; ".join(f"{text(each.get('field'))}: {text(each.get('details'))}" for each in issues)
        error.what = f"run:ai refuses the workload (HTTP {error.status}): {said}"
        error.args = (error.what,)
    error.remedy = error.remedy or "the workload as it was sent is job.json in the job's folder; see custom_spec, pvcs"
    return error
