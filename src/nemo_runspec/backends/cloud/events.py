"""Lines of a log made of a platform's events for a job: every event once."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone

from nemo_runspec.backends.cloud.log_cursor import LogCursor, LogLine
from nemo_runspec.backends.provider import Cursors, Event, LogChunk

EVENTS = "events"
"""The path of such a log."""


def event_log(events: Iterable[Event], cursors: Cursors) -> list[LogChunk]:
    """The lines of new events."""
    lines = sorted((LogLine(_nanoseconds(event), _line(event)) for event in events), key=lambda line: line.time)
    cursor = LogCursor.parse(cursors.get(EVENTS))
    new = cursor.after(lines)
    return [LogChunk(EVENTS, 0, b"".join(line.text for line in new), next=cursor.moved(new).json)] if new else []


def _nanoseconds(event: Event) -> int:
    return int((event.time or 0.0) * 1000) * 1_000_000


def _line(event: Event) -> bytes:
    time = None if event.time is None else datetime.fromtimestamp(event.time, timezone.utc)
    when = "-" if time is None else f"{time:%Y-%m-%d %H:%M:%SZ}"
    many = f" (x{event.count})" if event.count > 1 else ""
    return f"{when} {event.kind} {event.reason} {event.about}: {event.message}{many}\n".encode()
