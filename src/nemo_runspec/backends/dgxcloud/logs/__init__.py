"""A job's logs, from wherever they can be had: files on the claim, pods of the cluster, or a copy on S3.

run:ai's control plane has no logs (its published API, 2.24, offers none). So a job's log is read, in this order:
from the claim, where this machine sees it; from the pods, where the profile names the cluster's API server; from S3,
where a helper workload has put it once the job is over. Where none of these is set up, the log says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from nemo_runspec.backends.cloud.optional_requests import OptionalRequests
from nemo_runspec.backends.dgxcloud.api import RunaiApi
from nemo_runspec.backends.dgxcloud.logs import kube, pvc, s3_copy, unavailable
from nemo_runspec.backends.dgxcloud.pods import never_ran
from nemo_runspec.backends.dgxcloud.workloads import is_over_now, state_now
from nemo_runspec.backends.provider import Cursors, Handle, LogChunk
from nemo_runspec.errors import UserError
from nemo_runspec.script.pod_marker import read_ends
from nemo_runspec.transport.base import Unreachable

_RAN: dict[str, bool] = {}
"""Whether jobs that are over have ever run, by their workloads' ids, as far as this process has asked."""


def new_chunks(api: RunaiApi, handle: Handle, cursors: Cursors, limit: int) -> Sequence[LogChunk]:
    """What is new in the logs of a job's nodes; where they cannot be read, a line that says why, once.

    Args:
        cursors: by `LogChunk.path`.
        limit: bytes in all.

    Raises:
        UserError: run:ai does not answer, or refuses.
    """
    if pvc.seen_from_here(handle):
        new = pvc.new_chunks(handle, cursors, limit)
        empty = not new and not cursors and is_over_now(api, handle)
        return unavailable.nothing_there(handle) if empty else new
    chunks, trouble = _of_pods(api, handle, cursors, limit)
    if chunks is not None:
        return chunks
    if kube.is_whole(handle, cursors):
        return []
    if _never_ran(api, handle, cursors):
        return unavailable.never_ran(handle, cursors)
    copied = s3_copy.new_chunks(api, handle, cursors, limit)
    if copied is not None:
        return copied
    closed = pvc.closed(handle)
    why = [f"{closed} may not be read by this user (the job's pods run as another one)"] if closed else []
    why += [trouble] if trouble else []
    if not why and kube.begun(handle, cursors):
        return unavailable.cut_short(handle, cursors)
    return unavailable.no_log(handle, cursors, "; ".join(why))


def last_lines(api: RunaiApi, handle: Handle) -> bytes:
    """The end of the logs of a job's nodes, end markers included; empty where there is no quick way to them.

    A node that ended before its files were on the claim has said so in its pod's log alone.
    """
    kept = pvc.last_lines(handle) if pvc.seen_from_here(handle) else b""
    if read_ends(kept) or api.kube is None:
        return kept
    try:
        return kube.last_lines(api, handle) or kept
    except UserError:
        if kept:
            return kept
        raise


def _never_ran(api: RunaiApi, handle: Handle, cursors: Cursors) -> bool:
    """True if a job was stopped before it ran. Asked once of those of which nothing was said or is to be fetched."""
    id = str(handle["id"])
    if cursors.get(unavailable.PATH) and not handle.get("logs_url"):
        return False
    if id not in _RAN and is_over_now(api, handle):
        stopped, requests = state_now(api, handle) == "cancelled", OptionalRequests("run:ai", api.web)
        _RAN[id] = not stopped or kube.begun(handle, cursors) or not never_ran(api, requests, id)
    return not _RAN.get(id, True)


def _of_pods(api: RunaiApi, handle: Handle, cursors: Cursors, limit: int) -> tuple[Sequence[LogChunk] | None, str]:
    """What is new in the pods' logs, None where they cannot be read from there, and why.

    A cluster that is out of reach, or shows nobody its logs, keeps nobody from seeing how the job ends: once it has,
    the cluster is asked a last time.
    """
    if api.kube is None:
        return None, ""
    try:
        return kube.new_chunks(api, handle, cursors, limit), ""
    except Unreachable:
        if not is_over_now(api, handle):
            return [], ""
    except UserError as error:
        return None, error.what
    api.ask_kube_now()
    try:
        return kube.new_chunks(api, handle, cursors, limit), ""
    except UserError as error:
        return None, error.what
