"""Logs of a job's pods, from the cluster's API server: every line once, by the time at which it was written.

`GET /api/v1/namespaces/NS/pods/POD/log` of Kubernetes takes `sinceTime` in whole seconds and cuts its answer at
`limitBytes`, in the middle of a line; `timestamps` puts the time in nanoseconds before each line.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nemo_runspec.backends.dgxcloud.api import RunaiApi
from nemo_runspec.backends.dgxcloud.pods import Pod, namespace_of, pods_of, rank_of
from nemo_runspec.backends.dgxcloud.status import is_over_now, workload_name
from nemo_runspec.remote.provider import Handle, LogChunk
from nemo_runspec.transport.web import Refused

_LEAST, _MOST = 64 << 10, 64 << 20
"""Bytes asked for at a time: at least; at most, where one second's lines are more than that."""

_TAKEN, _TOTAL, _BEFORE = 1_000_000, 10**26, 10**15
"""A cursor as a number: nanoseconds times the first, plus how many lines of that very time were taken; above the second
stands twice the number of lines that were taken in all, and one more where the pod's last line was the last of them;
above the third how many of them were of the pod's earlier lives."""

_END = re.compile(rb"^nemotron-end: node=(\d+) .*\blines=(\d+)\b")

_END_LINES, _ENDS = 80, 8
"""Lines of a pod's end that are looked at, and pods that are."""

_OVER = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class _Line:
    """`time`: nanoseconds since 1970. `text`: with its end."""

    time: int
    text: bytes


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a log was read: the time of its last line, how many of that time and in all, whether it has ended.

    What is preempted is run anew by run:ai, in a pod of the same name: it goes on after its end, in another life.
    `before`: lines of its earlier lives.
    """

    time: int = 0
    taken: int = 0
    total: int = 0
    ended: bool = False
    before: int = 0

    @classmethod
    def read(cls, number: int) -> Cursor:
        """Out of the number that is kept."""
        high, low = divmod(number, _TOTAL)
        before, count = divmod(high, _BEFORE)
        return cls(low // _TAKEN, low % _TAKEN, count // 2, bool(count % 2), before)

    @property
    def number(self) -> int:
        """What is kept."""
        return (self.before * _BEFORE + 2 * self.total + self.ended) * _TOTAL + self.time * _TAKEN + self.taken

    def moved(self, lines: Sequence[_Line]) -> Cursor:
        """The cursor after these lines."""
        if not lines:
            return self
        last = lines[-1].time
        same = sum(line.time == last for line in lines) + (self.taken if last == self.time else 0)
        before, ended = self.before, self.ended
        for number, line in enumerate(lines, self.total):
            before, ended = number if ended else before, _END.match(line.text) is not None
        return Cursor(last, same, self.total + len(lines), ended, before)


def tail(api: RunaiApi, handle: Handle, offsets: Mapping[str, int], limit: int) -> list[LogChunk] | None:
    """New lines of each pod; None where the cluster has no log of any of them, as they are gone or never started."""
    pods = pods_of(api, str(handle["id"]))
    if not pods:
        return None if is_over_now(api, handle) else []
    found: list[LogChunk] = []
    known = False
    for pod in pods:
        piece = _new(api, handle, pod, offsets.get(pod.name, 0), max(_LEAST, limit // len(pods)))
        known = known or piece is not None
        found += [piece] if piece is not None and piece.content else []
    return found if known or any(pod.phase not in _OVER for pod in pods) else None


def is_whole(handle: Handle, offsets: Mapping[str, int]) -> bool:
    """Whether every node's last line has been read."""
    pods = [Cursor.read(offset) for path, offset in offsets.items() if _is_pod(path, workload_name(handle))]
    return sum(cursor.ended for cursor in pods) >= int(handle.get("nodes") or 1)


def begun(handle: Handle, offsets: Mapping[str, int]) -> bool:
    """Whether any line of this attempt's pods has been read."""
    return any(offset for path, offset in offsets.items() if _is_pod(path, workload_name(handle)))


def lines_taken(handle: Handle, offsets: Mapping[str, int], node: int) -> int:
    """How many lines of a node were read from its pods, those of all attempts."""
    mine = [path for path in offsets if _is_pod(path, str(handle["name"])) and rank_of(path) == node]
    return sum(Cursor.read(offsets[path]).total for path in mine)


def last_words(api: RunaiApi, handle: Handle) -> bytes:
    """The last lines of the pods that tell most: those that failed, and the first."""
    pods = pods_of(api, str(handle["id"]))
    telling = sorted(pods, key=lambda pod: (pod.phase != "Failed", pod.index))[:_ENDS]
    return b"".join(_end(api, handle, pod) for pod in telling)


def _is_pod(path: str, name: str) -> bool:
    return path.startswith(f"{name}-")


def _new(api: RunaiApi, handle: Handle, pod: Pod, offset: int, room: int) -> LogChunk | None:
    """What is new of one pod; None where the cluster has no log of it."""
    cursor = Cursor.read(offset)
    while True:
        body = _ask(api, handle, pod, {**_since(cursor), "limitBytes": room})
        if body is None:
            return None
        cut = len(body) >= room
        lines = [line for line in _lines(body, whole=not cut and pod.phase in _OVER)]
        new = _after(lines, cursor)
        if new or not cut or room >= _MOST:
            return LogChunk(pod.name, offset, _said(new, cursor), cut, next=cursor.moved(new).number)
        room *= 4  # all of it was taken before: one second holds more than that


def _ask(api: RunaiApi, handle: Handle, pod: Pod, params: Mapping[str, object]) -> bytes | None:
    container = {"container": pod.container} if pod.container else {}
    try:
        return api.kube_log(namespace_of(handle), pod.name, {**container, "timestamps": "true", **params})
    except Refused as error:
        if error.status not in (400, 404):  # a container that has not started yet is a 400, a pod that is gone a 404
            raise
        return None


def _end(api: RunaiApi, handle: Handle, pod: Pod) -> bytes:
    body = _ask(api, handle, pod, {"tailLines": _END_LINES})
    return b"".join(line.text for line in _lines(body or b"", whole=True))


def _since(cursor: Cursor) -> dict[str, str]:
    """`sinceTime` of a cursor, from the second it lies in."""
    if not cursor.time:
        return {}
    second = cursor.time // 1_000_000_000
    return {"sinceTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))}


def _lines(body: bytes, *, whole: bool) -> Iterator[_Line]:
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
            yield _Line(when, text + b"\n")


def _after(lines: Sequence[_Line], cursor: Cursor) -> list[_Line]:
    """The lines that a cursor has not come to."""
    same = [line for line in lines if line.time == cursor.time]
    return [*same[cursor.taken :], *(line for line in lines if line.time > cursor.time)]


def _said(lines: Sequence[_Line], cursor: Cursor) -> bytes:
    """The lines as they are; after a pod's last one it is said how many the cluster has lost of those it counted."""
    parts = []
    for line in lines:
        parts.append(line.text)
        cursor = cursor.moved([line])
        end = _END.match(line.text)
        lost = int(end[2]) - (cursor.total - 1 - cursor.before) if end else 0
        if end and lost > 0:
            where = "the log in the job's directory has them"
            parts.append(f"nemotron: the cluster has lost {lost} lines of node {int(end[1])}'s log; {where}\n".encode())
    return b"".join(parts)


def _nanoseconds(stamp: bytes) -> int:
    """A time such as `2026-01-02T03:04:05.123456789Z` (RFC 3339), 0 where it is none."""
    whole, _, fraction = stamp.decode("ascii", "replace").rstrip("Z").partition(".")
    try:
        seconds = calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))
        return seconds * 1_000_000_000 + int(fraction.ljust(9, "0")[:9] or 0)
    except ValueError:
        return 0
