"""How a job that is over ended: the exit code its nodes left behind, else what the cluster says of its containers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from time import sleep as sleep_for
from typing import Any

from nemo_runspec.backends.dgxcloud.api import Row, RunaiApi
from nemo_runspec.backends.dgxcloud.logs import claim, last_words
from nemo_runspec.cloud.marker import End, decisive, read_ends, to_marker
from nemo_runspec.errors import UserError
from nemo_runspec.remote.provider import Handle, Seen
from nemo_runspec.script.markers import cause

WORDS = "nemotron: last words"
"""Where `Seen.detail`, which is run:ai's own row, holds what was read of the logs' ends."""

_EXITED = re.compile(r"exited with code (\d+)|exit ?code:? (\d+)", re.IGNORECASE)
"""How events name a container's exit code: `ExitedWithCode` of Kubeflow's operator, and the kubelet's own words."""

_OOM = re.compile(r"OOMKilled|out of memory", re.IGNORECASE)
_OOM_CODE = 137

_PATIENCE = (0.0, 0.5, 1.0, 2.0)
"""Seconds before each look for the last words of a job's nodes: a log may come later than the phase."""


def with_end(api: RunaiApi, handle: Handle, seen: Seen, sleep: Callable[[float], None] = sleep_for) -> Seen:
    """What was seen of a job that is over, with the exit code and the cause that its own nodes give.

    Args:
        seen: with the state `succeeded` or `failed`; any other is given back as it is.
    """
    if seen.gone or seen.state not in ("succeeded", "failed"):
        return seen
    ends: Mapping[int, End] = {}
    for pause in _PATIENCE:
        sleep(pause)
        words = _words(api, handle)
        seen = replace(seen, detail={**(seen.detail or {}), WORDS: words})
        ends = _of_attempt(read_ends(words), int(handle.get("attempt") or 0))
        if _enough(ends, seen) or not _expected(api, handle, seen):
            break
    found = decisive(ends)
    if found is not None:
        return _as_told(seen, found)
    return seen if seen.state == "succeeded" else _as_the_cluster_says(api, handle, seen)


def _enough(ends: Mapping[int, End], seen: Seen) -> bool:
    """Whether the job's end is known: node 0 ends last where all is well, and any node's failure is the job's."""
    return any(end.exit_code for end in ends.values()) or (seen.state == "succeeded" and 0 in ends)


def _expected(api: RunaiApi, handle: Handle, seen: Seen) -> bool:
    """Whether last words may still come: there is a way to them, and a pod that ran."""
    return (claim.seen_from_here(handle) or bool(api.kube)) and bool(
        seen.facts.get("nodes") or seen.state == "succeeded"
    )


def _words(api: RunaiApi, handle: Handle) -> bytes:
    """The nodes' last words; what cannot be read now is left out."""
    with suppress(UserError):
        return last_words(api, handle)
    return b""


def _of_attempt(ends: Mapping[int, End], attempt: int) -> dict[int, End]:
    return {node: end for node, end in ends.items() if end.attempt == attempt}


def _as_told(seen: Seen, end: End) -> Seen:
    """The nodes' own word counts: a workload that failed though its job did not, has a failure of the platform's."""
    marker = to_marker(end)
    if marker.exit_code == 0 and seen.state == "failed":
        return replace(seen, reason=seen.reason or "run:ai calls it failed; its nodes ended well", exit_code=1)
    state = "failed" if marker.exit_code else "succeeded"
    facts = {**seen.facts, **({"nodes": seen.facts.get("nodes") or end.node_name} if end.node_name else {})}
    return replace(
        seen, state=state, reason=cause(marker), exit_code=marker.exit_code, signal=marker.signal, facts=facts
    )


def _as_the_cluster_says(api: RunaiApi, handle: Handle, seen: Seen) -> Seen:
    words = [*_container_states(api, handle), *_events(api, handle), seen.reason]
    oom = next((word for word in words if _OOM.search(word)), "")
    if oom:
        return replace(seen, reason=seen.reason or oom, exit_code=_OOM_CODE)
    codes = [int(found[1] or found[2]) for word in words if (found := _EXITED.search(word))]
    code = next((code for code in codes if code), 0)
    return replace(seen, reason=seen.reason or f"exit code {code}", exit_code=code) if code else seen


def _container_states(api: RunaiApi, handle: Handle) -> list[str]:
    """How containers ended, as the cluster has it: `reason` and `exitCode` of what was terminated."""
    if api.kube is None or not handle.get("id"):
        return []
    from nemo_runspec.backends.dgxcloud.logs.kube import namespace_of
    from nemo_runspec.backends.dgxcloud.pods import pods_of

    with suppress(UserError):
        names = {pod.name for pod in pods_of(api, str(handle["id"]))}
        pods = [pod for pod in api.kube_pods(namespace_of(handle)) if (pod.get("metadata") or {}).get("name") in names]
        return [f"{end.get('reason')}: exit code {end.get('exitCode')}" for pod in pods for end in _terminated(pod)]
    return []


def _terminated(pod: Row) -> list[Mapping[str, Any]]:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    states = [state for status in statuses for state in (status.get("state"), status.get("lastState")) if state]
    return [state["terminated"] for state in states if isinstance(state.get("terminated"), dict)]


def _events(api: RunaiApi, handle: Handle) -> list[str]:
    with suppress(UserError):
        return [f"{event.get('reason')}: {event.get('message')}" for event in api.events(str(handle["id"]))]
    return []
