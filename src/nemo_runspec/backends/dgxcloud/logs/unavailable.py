"""The lines in place of a log that cannot be read: why, and what to set up. It is said once."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from nemo_runspec.backends.cloud.handle import PodHandle
from nemo_runspec.backends.provider import Cursors, Handle, LogChunk

PATH = "nemotron"

_WAYS: Mapping[str, str] = {
    "kube": "kube_apiserver_url (logs of the pods while they are there)",
    "here": "run_dir_here (the claim's storage as this machine sees it)",
    "logs_url": "output_url or code_url on S3 (fetched once the job has ended)",
}
"""By what a handle has where its profile has taken this way to a job's log."""


def notice(path: str, *lines: str) -> LogChunk:
    """Lines of nemotron's own as a chunk that comes once; which ones they were is kept as its cursor."""
    text = "".join(f"nemotron: {line}\n" for line in lines).encode()
    return LogChunk(path, 0, text, next=zlib.crc32(text) or 1)


def first_notice(cursors: Cursors, path: str, *lines: str) -> list[LogChunk]:
    """The same, unless there was one at that path."""
    return [] if cursors.get(path) else [notice(path, *lines)]


def no_log(handle: Handle, cursors: Cursors, trouble: str = "") -> list[LogChunk]:
    """Why there is no log, and the ways to one.

    Args:
        trouble: why the claim or the cluster gives nothing, '' where there is simply nothing.
    """
    where = f"{PodHandle(handle).job_dir}/logs on the claim"
    if handle.get("logs_url"):
        why = f" ({trouble})" if trouble else ""
        line = f"this job's log cannot be read from here yet{why}. run:ai gives none to the outside; what the job "
        return first_notice(cursors, PATH, f"{line}writes is in {where}, and is fetched once it ends")
    why = f": {trouble}" if trouble else " any more: its pods are gone" if handle.get("kube") else ""
    return first_notice(
        cursors,
        PATH,
        f"this job's log cannot be read from here{why}. run:ai gives none to the outside; it is in {where}",
        f"to have a job's log here, set one of these in the profile before it is submitted: {ways(handle)}",
    )


def nothing_there(handle: Handle) -> list[LogChunk]:
    """Of a job that is over and has left nothing where its log should be."""
    why = "its pods never came to their start, or run_dir_here is not the directory that they see as pvc_nemo_run_dir"
    return [notice(PATH, f"there is no log in {PodHandle(handle).here}: {why}")]


def cut_short(handle: Handle, cursors: Cursors) -> list[LogChunk]:
    """Of a job whose pods went before their last lines were read."""
    line = f"its pods are gone; what they wrote after that is in {PodHandle(handle).job_dir}/logs on the claim"
    return first_notice(cursors, PATH, line)


def never_ran(handle: Handle, cursors: Cursors) -> list[LogChunk]:
    """Of a job, or of one attempt of it, that has written nothing anywhere."""
    attempt = PodHandle(handle).attempt
    which = f"its attempt {attempt + 1}" if attempt else "it"
    return first_notice(cursors, f"{PATH}-{attempt}", f"there is no log of {which}: none of its pods ever ran")


def ways(handle: Handle) -> str:
    """The ways to a job's log that its profile has not taken."""
    return ", or ".join(text for key, text in _WAYS.items() if not handle.get(key))
