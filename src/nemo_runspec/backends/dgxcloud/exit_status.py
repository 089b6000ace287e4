"""How a job that is over ended: the exit code its nodes left behind, else what the cluster says of its containers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import sleep as sleep_for

from nemo_runspec.backends.cloud.ending import LATE, LastLines, conclude, read_last_lines
from nemo_runspec.backends.cloud.optional_requests import OptionalRequests
from nemo_runspec.backends.cloud.states import OUT_OF_MEMORY
from nemo_runspec.backends.dgxcloud.api import RunaiApi
from nemo_runspec.backends.dgxcloud.facts import detail_of, exit_code_in, exit_code_of, gather
from nemo_runspec.backends.dgxcloud.logs import last_lines, pvc
from nemo_runspec.backends.provider import Handle
from nemo_runspec.records.status import JobStatus

NO_CODE = "its exit code is not known from here (1 stands for any failure)"
"""Of a job that has failed, and that is all that is known."""

_PATIENCE = (0.0, 0.5, 1.0, 2.0)
"""Seconds before each look for the last lines of jobs that are over."""


def with_ends(
    api: RunaiApi, handles: Sequence[Handle], found: Sequence[JobStatus], sleep: Callable[[float], None] = sleep_for
) -> list[JobStatus]:
    """What was found of jobs; of those that are over with the exit code and the cause that their own nodes give.

    All of them are waited for at once, and only those that have ended just now.

    Args:
        found: with the state `succeeded` or `failed`; any other is given back as it is.
    """
    over = {n: handles[n] for n, each in enumerate(found) if not each.gone and each.state in ("succeeded", "failed")}
    lines = read_last_lines(
        over,
        OptionalRequests("run:ai", api.web, api.kube),
        lambda n: last_lines(api, over[n]),
        lambda n, lines: not _is_known(lines, found[n]) and _expects_more(api, over[n], found[n]),
        _PATIENCE,
        sleep,
    )
    return [_with_end(api, handles[n], each, lines[n]) if n in over else each for n, each in enumerate(found)]


def _with_end(api: RunaiApi, handle: Handle, status: JobStatus, lines: LastLines) -> JobStatus:
    lines = replace(lines, unread="") if api.kube_closed else lines
    status = replace(status, detail=replace(detail_of(status), log=lines.log))
    return conclude(status, handle, lines, "run:ai", lambda failed: _explained(api, handle, failed), _uncoded)


def _uncoded(status: JobStatus) -> JobStatus:
    reason = "; ".join(filter(None, (status.reason, NO_CODE)))
    return replace(status, reason=reason, detail=replace(detail_of(status), uncoded=True))


def _is_known(lines: LastLines, status: JobStatus) -> bool:
    """Whether the job's end is known: node 0 ends last where all is well, and any node's failure is the job's."""
    return lines.failed or (status.state == "succeeded" and 0 in lines.ends)


def _expects_more(api: RunaiApi, handle: Handle, status: JobStatus) -> bool:
    """Whether last lines may still come: there is a way to them, a pod that ran, and it has ended just now."""
    if status.ended is None or api.web.time() - status.ended > LATE:
        return False
    ran = bool(status.facts.nodes) or status.state == "succeeded"
    return ran and (pvc.seen_from_here(handle) or (api.kube is not None and not api.kube_refuses))


def _explained(api: RunaiApi, handle: Handle, status: JobStatus) -> JobStatus:
    """A failure with what the cluster says of its containers."""
    from nemo_runspec.backends.cloud.diagnose import event_messages
    from nemo_runspec.backends.dgxcloud.diagnose import pod_messages
    from nemo_runspec.diagnosis.causes import says_killed_for_memory

    found = gather(api, handle, status)
    status = replace(status, detail=replace(detail_of(status), evidence=found))
    messages = (*pod_messages(found.pods, now=False), *event_messages(found.events))
    killed = next(filter(says_killed_for_memory, (*(message.text for message in messages), status.reason)), "")
    if killed:
        return replace(status, reason=status.reason or killed, exit_code=OUT_OF_MEMORY)
    code = exit_code_of(found) or exit_code_in(status.reason)
    return replace(status, reason=status.reason or f"exit code {code}", exit_code=code) if code else status
