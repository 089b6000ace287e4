"""How a job that is over ended: the exit code its nodes left behind, else what the cluster says of its containers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import sleep as sleep_for

from nemo_runspec.backends.cloud.aside import SECONDS, Aside
from nemo_runspec.backends.dgxcloud.api import RunaiApi
from nemo_runspec.backends.dgxcloud.facts import KEY, exit_code_in, exit_code_of, gather
from nemo_runspec.backends.dgxcloud.logs import last_words, pvc
from nemo_runspec.remote.provider import Handle, JobStatus
from nemo_runspec.script.markers import cause, decisive
from nemo_runspec.script.pod_marker import End, read_ends, to_marker

WORDS = "nemotron: last words"
"""Where `JobStatus.detail`, which is run:ai's own row, holds what was read of the logs' ends."""

UNCODED = "nemotron: no exit code"
"""The same, for that nobody here can know the exit code."""

NO_CODE = "its exit code is not known from here (1 stands for any failure)"
"""Of a job that has failed, and that is all that is known."""

_OOM_CODE = 137

_PATIENCE = (0.0, 0.5, 1.0, 2.0)
"""Seconds before each look for the last words of a job's nodes: a log may come later than the phase."""


_LOG = "log"
_NOT_YET = "the last lines of its log have not come yet"

_LATE = 120.0
"""Seconds after a job's end in which lines of its log may still arrive."""


def with_ends(
    api: RunaiApi, handles: Sequence[Handle], seen: Sequence[JobStatus], sleep: Callable[[float], None] = sleep_for
) -> list[JobStatus]:
    """What was seen of jobs; of those that are over with the exit code and the cause that their own nodes give.

    All of them are waited for at once, and only those that have ended just now.

    Args:
        seen: with the state `succeeded` or `failed`; any other is given back as it is.
    """
    found = list(seen)
    over = [n for n, each in enumerate(found) if not each.gone and each.state in ("succeeded", "failed")]
    ends: dict[int, Mapping[int, End]] = {}
    left, aside = over, Aside("run:ai", api.web, api.kube)
    for pause in _PATIENCE:
        if not left:
            break
        sleep(pause)
        for n in left:
            words = aside.of(_LOG, last_words, api, handles[n]) or b""
            found[n] = _keeping(found[n], **{WORDS: words})
            ends[n] = _of_attempt(read_ends(words), int(handles[n].get("attempt") or 0))
        left = [] if aside.lacks(_LOG) else left
        left = [n for n in left if not _enough(ends[n], found[n]) and _expected(api, handles[n], found[n])]
    for n in over:
        unread = "" if api.kube_closed else aside.lacks(_LOG) or (_NOT_YET if n in left else "")
        found[n] = _judged(api, handles[n], found[n], decisive(ends[n].values()), unread)
    return found


def _judged(api: RunaiApi, handle: Handle, seen: JobStatus, end: End | None, unread: str) -> JobStatus:
    """What is known of a job's end. `unread`: why there may be more by a later look."""
    if end is not None:
        return _as_told(seen, end)
    if seen.state != "succeeded":
        return _as_the_cluster_says(api, handle, seen, unread)
    return replace(seen, facts={**seen.facts, "unread": unread}) if unread else seen


def _keeping(seen: JobStatus, **more: object) -> JobStatus:
    return replace(seen, detail={**(seen.detail or {}), **more})


def _enough(ends: Mapping[int, End], seen: JobStatus) -> bool:
    """Whether the job's end is known: node 0 ends last where all is well, and any node's failure is the job's."""
    return any(end.exit_code for end in ends.values()) or (seen.state == "succeeded" and 0 in ends)


def _expected(api: RunaiApi, handle: Handle, seen: JobStatus) -> bool:
    """Whether last words may still come: there is a way to them, a pod that ran, and it has ended just now."""
    if seen.ended is None or api.web.time() - seen.ended > _LATE:
        return False
    ran = bool(seen.facts.get("nodes")) or seen.state == "succeeded"
    return ran and (pvc.seen_from_here(handle) or (api.kube is not None and not api.kube_refuses))


def _of_attempt(ends: Mapping[int, End], attempt: int) -> dict[int, End]:
    return {node: end for node, end in ends.items() if end.attempt == attempt}


def _as_told(seen: JobStatus, end: End) -> JobStatus:
    """The nodes' own word counts: a workload that failed though its job did not, has a failure of the platform's."""
    marker = to_marker(end)
    if marker.exit_code == 0 and seen.state == "failed":
        return replace(seen, reason=seen.reason or "run:ai calls it failed; its nodes ended well", exit_code=1)
    state = "failed" if marker.exit_code else "succeeded"
    facts = {**seen.facts, **({"nodes": seen.facts.get("nodes") or end.node_name} if end.node_name else {})}
    return replace(
        seen, state=state, reason=cause(marker), exit_code=marker.exit_code, signal=marker.signal, facts=facts
    )


def _as_the_cluster_says(api: RunaiApi, handle: Handle, seen: JobStatus, unread: str) -> JobStatus:
    from nemo_runspec.backends.dgxcloud.diagnose import event_messages, pod_messages
    from nemo_runspec.diagnosis.causes import says_killed_for_memory

    with api.web.within(SECONDS):
        found = gather(api, handle, seen)
    seen = _keeping(seen, **{KEY: found})
    said = (*pod_messages(found.pods, now=False), *event_messages(found.events))
    words = [*(word.text for word in said), seen.reason]
    oom = next(filter(says_killed_for_memory, words), "")
    if oom:
        return replace(seen, reason=seen.reason or oom, exit_code=_OOM_CODE)
    code = exit_code_of(found) or exit_code_in(seen.reason)
    if code:
        return replace(seen, reason=seen.reason or f"exit code {code}", exit_code=code)
    if unread:
        return replace(seen, exit_code=None, facts={**seen.facts, "unread": unread})
    return _keeping(replace(seen, reason="; ".join(filter(None, (seen.reason, NO_CODE)))), **{UNCODED: True})
