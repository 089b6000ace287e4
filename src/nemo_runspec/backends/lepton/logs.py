"""The log of a job's nodes: what is new in it, every line once, in order, however the server cuts its answers.

Lepton keeps lines by time and answers with the newest of a time, at most 5,000. A cursor is the last line's time and
how many lines of that very time are taken already; a time whose lines do not fit into an answer is halved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nemo_runspec.backends.cloud.handle import PodHandle
from nemo_runspec.backends.cloud.log_cursor import LogCursor, LogLine, pod_cursors, unpacked
from nemo_runspec.backends.lepton.api import LOG_LINES, LeptonApi
from nemo_runspec.backends.provider import Cursors, Handle, Json, LogChunk
from nemo_runspec.transport.reading import number, text

_SECOND = 1_000_000_000
_BEFORE, _AHEAD = 600 * _SECOND, 120 * _SECOND
"""How long a line may be under way; and how far the clock that lines have may be before the one that answers have."""

_UNDATED = 86400 * _SECOND
"""How far before ours the platform's clock may be, as long as no answer has told it."""

_WIDEST = 7 * 86400 * _SECOND
"""The longest time that is asked for at once: servers of logs have such limits."""

_NANOSECONDS = re.compile("[0-9]{1,19}")

_UNCOUNTED = 10**9
"""A total that no log has: of a log whose beginning was not counted, so that no line of it is thought to be lost."""

_LOST = "Lepton has lost {lines} or more lines of node {node}'s log"


def cursor_of(stored: Json) -> LogCursor:
    """How far a log was read; integers are those of earlier releases, which counted lines since the last end."""
    if not isinstance(stored, int):
        return LogCursor.parse(stored)
    time, taken, lines = unpacked(stored)
    return LogCursor(time, taken, lines, ended=time > 0 and not lines)


def new_chunks(api: LeptonApi, handle: Handle, cursors: Cursors, limit: int) -> list[LogChunk]:
    """What is new, a chunk for each pod. One request for a job of one node; else one, and one for each node that runs.

    Args:
        cursors: by pod.
        limit: bytes in all; a line is never cut.
    """
    joined = cursor_of(cursors.get(str(handle["id"])))
    fresh = LogCursor(joined.time + 1, 0, _UNCOUNTED) if joined.time else LogCursor()  # after the log of all pods
    chunks: list[LogChunk] = []
    for replica in _pods(api, handle, cursors):
        path = replica or str(handle["id"])
        cursor = cursor_of(cursors[path]) if path in cursors else fresh
        if replica and cursor.ended:  # a job's only log goes on where Lepton itself starts the job again
            continue
        lines, more = _new_lines(api, handle, replica, cursor, limit)
        if not lines:
            continue
        alone = bool(replica) or PodHandle(handle).nodes == 1
        content = cursor.text(lines, _LOST) if alone else b"".join(line.text for line in lines)
        chunks.append(LogChunk(path, 0, content, more=more, next=cursor.moved(lines).json))
        limit -= len(content)
        if limit <= 0:
            break
    return chunks


def last_lines(
    api: LeptonApi, handle: Handle, lines: int = 1000, *, ended: float | None = None, replica: str = ""
) -> bytes:
    """The last lines of all of a job's nodes together, or of one, in the order of their times. One request.

    Args:
        ended: when the job was over, in seconds since 1970, where that is known.
    """
    until = max(_now(api, handle), int((ended or 0.0) * _SECOND) + 6 * _BEFORE)
    begin = min(max(_begin(api, handle), until - _WIDEST), until - 1)
    streams = api.logs(str(handle["id"]), begin, until, replica=replica, limit=min(lines, LOG_LINES))
    return b"".join(line.text for line in read_lines(streams))


def read_lines(streams: Sequence[Mapping[str, Any]]) -> list[LogLine]:
    """The lines of an answer, the oldest first; those of one time in the order in which they were written."""
    found: list[LogLine] = []
    for stream in streams:
        values = stream.get("values")
        lines = [line for value in values if (line := _line(value)) is not None] if isinstance(values, list) else []
        if lines and lines[0].time >= lines[-1].time:  # the newest first, as it was asked for
            lines.reverse()
        found += lines
    return sorted(found, key=lambda line: line.time)


def _pods(api: LeptonApi, handle: Handle, cursors: Cursors) -> list[str]:
    """Ids of the pods whose logs are asked for one by one; one '' where the job has a single log.

    A job of one node has: its log is then that of each of its starts, one after the other. So has one whose pods the
    platform does not list; as soon as it does, each of them goes on from where that log has come to.
    """
    if PodHandle(handle).nodes == 1:
        return [""]
    from nemo_runspec.backends.lepton.replicas import replicas_of

    listed = [replica.id for replica in replicas_of(api, str(handle["id"])) if replica.id]
    gone = [path for path in pod_cursors(cursors, str(handle["id"])) if path not in listed]
    return [*gone, *listed] or [""]


def _new_lines(
    api: LeptonApi, handle: Handle, replica: str, cursor: LogCursor, limit: int
) -> tuple[list[LogLine], bool]:
    """The lines after a cursor, up to a number of bytes, and whether there may be more by now."""
    taken: list[LogLine] = []
    size = 0
    for line in _after(api, handle, replica, cursor):
        if line is None or size >= limit:
            return taken, True
        taken.append(line)
        size += len(line.text)
    return taken, False


def _after(api: LeptonApi, handle: Handle, replica: str, cursor: LogCursor) -> Iterator[LogLine | None]:
    """The lines after a cursor, as they are asked for; None at the end where there may be more by now."""
    at, end = cursor.time or _begin(api, handle), _now(api, handle, cursor.time)
    width, written = min(end - at, _WIDEST), 0
    while at < end:
        until = min(at + max(1, width), end)
        settled = max(written, int(api.web.time() * _SECOND) - _BEFORE)
        lines = read_lines(api.logs(str(handle["id"]), at, until, replica=replica))
        end = max(_now(api, handle, cursor.time), lines[-1].time + 1 if lines else 0)
        until = min(until, end)
        written = max(written, lines[-1].time) if lines else written
        if len(lines) >= LOG_LINES and until - at > 1:
            # Only the newest came. As many lines as these fit into one answer: that is how long the next time may be.
            width = max(1, min((until - at) // 2, (until - lines[0].time) * 3 // 4))
            continue
        yield from cursor.after(lines)
        if settled < until < end:  # lines of this very time may be written still: the next one begins in it
            yield None
            return
        at, width = until, (width if len(lines) > LOG_LINES // 2 else min(2 * width, _WIDEST))


def _line(value: Any) -> LogLine | None:
    """A line of an answer: a pair of its time and its text."""
    if not isinstance(value, list) or len(value) < 2 or not isinstance(value[1], str):
        return None
    time = int(value[0]) if _NANOSECONDS.fullmatch(text(value[0])) else 0
    line = value[1].removesuffix("\n") + "\n"
    return LogLine(time, line.encode("utf-8", "replace")) if 0 < time < 2**63 else None


def _begin(api: LeptonApi, handle: Handle) -> int:
    """When the job may have written its first line: when it was submitted, else a week ago; by the platform's clock."""
    since = number(handle.get("since"))
    start = int(since * _SECOND) - _BEFORE if since else int(api.web.time() * _SECOND) - _WIDEST
    return max(1, start)


def _now(api: LeptonApi, handle: Handle, known: int = 0) -> int:
    """Until when lines may have been written, by the platform's clock; far beyond that until it has told its time.

    Args:
        known: nanoseconds since 1970 of a line that was written.
    """
    since = number(handle.get("since")) or 0.0
    now = max(int(api.web.time() * _SECOND), int(since * _SECOND), known)
    return now + (_AHEAD if api.web.dated else _UNDATED)
