"""Logs of a job's pods, from the cluster's API server: every line once, by the time at which it was written.

`GET /api/v1/namespaces/NS/pods/POD/log` of Kubernetes takes `sinceTime` in whole seconds and cuts its answer at
`limitBytes`, in the middle of a line; `timestamps` puts the time in nanoseconds before each line.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterator, Mapping

from nemo_runspec.backends.cloud.handle import PodHandle
from nemo_runspec.backends.cloud.log_cursor import LogCursor, LogLine, pod_cursors, unpacked
from nemo_runspec.backends.dgxcloud.api import RunaiApi
from nemo_runspec.backends.dgxcloud.pods import Pod, namespace_of, pods_of, rank_of
from nemo_runspec.backends.dgxcloud.workloads import is_over_now, workload_name
from nemo_runspec.backends.provider import Cursors, Handle, Json, LogChunk
from nemo_runspec.transport.web import Refused

_LEAST, _MOST = 64 << 10, 64 << 20
"""Bytes asked for at a time: at least; at most, where one second's lines are more than that."""

_LOST = "the cluster has lost {lines} lines of node {node}'s log; the log in the job's directory has them"

_END_LINES, _ENDS = 80, 8
"""Lines of a pod's end that are looked at, and pods that are."""

_OVER = frozenset({"Succeeded", "Failed"})


def cursor_of(stored: Json) -> LogCursor:
    """How far a pod's log was read; integers are those of earlier releases."""
    if not isinstance(stored, int):
        return LogCursor.parse(stored)
    time, taken, counts = unpacked(stored)
    before, count = divmod(counts, 10**15)
    return LogCursor(time, taken, count // 2, before, bool(count % 2))


def new_chunks(api: RunaiApi, handle: Handle, cursors: Cursors, limit: int) -> list[LogChunk] | None:
    """New lines of each pod; None where the cluster has no log of any of them, as they are gone or never started."""
    pods = pods_of(api, str(handle["id"]))
    if not pods:
        return None if is_over_now(api, handle) else []
    room = max(_LEAST, limit // len(pods))
    found = [chunk for pod in pods if (chunk := _new(api, handle, pod, cursors.get(pod.id), room)) is not None]
    known = found or any(pod.state not in _OVER for pod in pods)
    return [chunk for chunk in found if chunk.content] if known else None


def is_whole(handle: Handle, cursors: Cursors) -> bool:
    """True if every node's last line has been read."""
    ended = sum(cursor_of(cursor).ended for cursor in pod_cursors(cursors, workload_name(handle)).values())
    return ended >= PodHandle(handle).nodes


def begun(handle: Handle, cursors: Cursors) -> bool:
    """True if any line of this attempt's pods has been read."""
    return any(pod_cursors(cursors, workload_name(handle)).values())


def lines_taken(handle: Handle, cursors: Cursors, node: int) -> int:
    """How many lines of a node were read from its pods, those of all attempts."""
    pods = pod_cursors(cursors, str(handle["name"]))
    return sum(cursor_of(cursor).total for pod, cursor in pods.items() if rank_of(pod) == node)


def last_lines(api: RunaiApi, handle: Handle) -> bytes:
    """The last lines of the pods that tell most: those that failed, and the first."""
    pods = pods_of(api, str(handle["id"]))
    telling = sorted(pods, key=lambda pod: (pod.state != "Failed", pod.index or 0))[:_ENDS]
    return b"".join(_end(api, handle, pod) for pod in telling)


def _new(api: RunaiApi, handle: Handle, pod: Pod, stored: Json, room: int) -> LogChunk | None:
    """What is new of one pod; None where the cluster has no log of it."""
    cursor = cursor_of(stored)
    while True:
        body = _ask(api, handle, pod, {**_since(cursor), "limitBytes": room})
        if body is None:
            return None
        cut = len(body) >= room
        new = cursor.after(list(_lines(body, whole=not cut and pod.state in _OVER)))
        if new or not cut or room >= _MOST:
            return LogChunk(pod.id, 0, cursor.text(new, _LOST), cut, next=cursor.moved(new).json)
        room *= 4  # all of it was taken before: one second holds more than that


def _ask(api: RunaiApi, handle: Handle, pod: Pod, params: Mapping[str, object]) -> bytes | None:
    container = {"container": pod.container} if pod.container else {}
    try:
        return api.kube_log(namespace_of(handle), pod.id, {**container, "timestamps": "true", **params})
    except Refused as error:
        if error.status not in (400, 404):  # a container that has not started yet is a 400, a pod that is gone a 404
            raise
        return None


def _end(api: RunaiApi, handle: Handle, pod: Pod) -> bytes:
    body = _ask(api, handle, pod, {"tailLines": _END_LINES})
    return b"".join(line.text for line in _lines(body or b"", whole=True))


def _since(cursor: LogCursor) -> dict[str, str]:
    """`sinceTime` of a cursor, from the second it lies in."""
    if not cursor.time:
        return {}
    second = cursor.time // 1_000_000_000
    return {"sinceTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))}


def _lines(body: bytes, *, whole: bool) -> Iterator[LogLine]:
    """The lines of an answer.

    Args:
        whole: the last one is as it should be, though it has no end.
    """
    parts = body.split(b"\n")
    last = parts.pop()
    for part in [*parts, *([last] if whole and last else [])]:
        stamp, _, text = part.partition(b" ")
        when = _nanoseconds(stamp)
        if when:  # Kubernetes stamps every line: what has no time comes from something on the way
            yield LogLine(when, text + b"\n")


def _nanoseconds(stamp: bytes) -> int:
    """A time such as `2026-01-02T03:04:05.123456789Z` (RFC 3339), 0 where it is none."""
    whole, _, fraction = stamp.decode("ascii", "replace").rstrip("Z").partition(".")
    try:
        seconds = calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))
        return seconds * 1_000_000_000 + int(fraction.ljust(9, "0")[:9] or 0)
    except ValueError:
        return 0
