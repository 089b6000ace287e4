"""How a job that is over ended: the exit code its nodes left behind, else what the cluster says of its containers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import sleep as sleep_for

from nemo_runspec.backends.cloud.ending import LATE, LastLines, conclude, read_last_lines
from nemo_runspec.backends.cloud.optional_requests import SECONDS, Aside
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
    api: RunaiApi, handles: Sequence[Handle], seen: Sequence[JobStatus], sleep: Callable[[float], None] = sleep_for
) -> list[JobStatus]:
    """What was seen of jobs; of those that are over with the exit code and the cause that their own nodes give.

    All of them are waited for at once, and only those that have ended just now.

    Args:
        seen: with the state `succeeded` or `failed`; any other is given back as it is.
    """
    over = {n: handles[n] for n, each in enumerate(seen) if not each.gone and each.state in ("succeeded", "failed")}
    lines = read_last_lines(
        over,
        Aside("run:ai", api.web, api.kube),
        lambda n: last_lines(api, over[n]),
        lambda n, lines: not _enough(lines, seen[n]) and _expected(api, over[n], seen[n]),
        _PATIENCE,
        sleep,
    )
    return [_with_end(api, handles[n], each, lines[n]) if n in over else each for n, each in enumerate(seen)]


def _with_end(api: RunaiApi, handle: Handle, seen: JobStatus, lines: LastLines) -> JobStatus:
    lines = replace(lines, unread="") if api.kube_closed else lines
    seen = replace(seen, detail=replace(detail_of(seen), log=lines.log))
    return conclude(seen, handle, lines, "run:ai", lambda failed: _as_the_cluster_says(api, handle, failed), _uncoded)


def _uncoded(seen: JobStatus) -> JobStatus:
    reason = "; ".join(filter(None, (seen.reason, NO_CODE)))
    return replace(seen, reason=reason, detail=replace(detail_of(seen), uncoded=True))


def _enough(lines: LastLines, seen: JobStatus) -> bool:
    """Whether the job's end is known: node 0 ends last where all is well, and any node's failure is the job's."""
    return lines.failed or (seen.state == "succeeded" and 0 in lines.ends)


def _expected(api: RunaiApi, handle: Handle, seen: JobStatus) -> bool:
    """Whether last lines may still come: there is a way to them, a pod that ran, and it has ended just now."""
    if seen.ended is None or api.web.time() - seen.ended > LATE:
        return False
    ran = bool(seen.facts.nodes) or seen.state == "succeeded"
    return ran and (pvc.seen_from_here(handle) or (api.kube is not None and not api.kube_refuses))


def _as_the_cluster_says(api: RunaiApi, handle: Handle, seen: JobStatus) -> JobStatus:
    from nemo_runspec.backends.dgxcloud.diagnose import event_messages, pod_messages
    from nemo_runspec.diagnosis.causes import says_killed_for_memory

    with api.web.within(SECONDS):
        found = gather(api, handle, seen)
    seen = replace(seen, detail=replace(detail_of(seen), evidence=found))
    said = (*pod_messages(found.pods, now=False), *event_messages(found.events))
    oom = next(filter(says_killed_for_memory, (*(message.text for message in said), seen.reason)), "")
    if oom:
        return replace(seen, reason=seen.reason or oom, exit_code=OUT_OF_MEMORY)
    code = exit_code_of(found) or exit_code_in(seen.reason)
    return replace(seen, reason=seen.reason or f"exit code {code}", exit_code=code) if code else seen
