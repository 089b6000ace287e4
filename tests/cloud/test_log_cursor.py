"""A cursor of a log whose lines have times: every line once, and those that never came are counted."""

from __future__ import annotations

import json

import pytest

from nemo_runspec.backends.cloud.log_cursor import LogCursor, LogLine

END = b"nemotron-end: node=0 attempt=0 exit_code=0 phase=command lines=%d reason=\n"


def test_lines_of_one_time_come_once():
    """Lines may have the same nanosecond; a cursor counts them, also through JSON."""
    lines = [LogLine(5, b"a\n"), LogLine(7, b"b\n"), LogLine(7, b"c\n"), LogLine(7, b"d\n")]
    cursor = LogCursor()
    taken = []
    for count in (2, 3, 4):  # more of them come while it is asked
        new = cursor.after(lines[:count])
        taken += new
        cursor = LogCursor.parse(json.loads(json.dumps(cursor.moved(new).json)))
    assert taken == lines
    assert (cursor.time, cursor.taken, cursor.total) == (7, 3, 4)
    assert cursor.after(lines) == [] and cursor.moved([]) == cursor


def test_lines_that_never_came_are_counted_for_each_life_of_a_pod():
    first = [LogLine(1, b"a\n"), LogLine(2, END % 3)]
    second = [LogLine(3, b"b\n"), LogLine(4, END % 1)]
    third = [LogLine(5, b"c\n"), LogLine(6, END % 2)]
    cursor, text = LogCursor(), b""
    for lines in (first, second, third[:1], third[1:]):
        text += cursor.text(lines, "{lines} lost of node {node}")
        cursor = cursor.moved(lines)
    assert [line for line in text.splitlines() if b"lost" in line] == [
        b"nemotron: 2 lost of node 0",
        b"nemotron: 1 lost of node 0",
    ]
    assert cursor.ended and (cursor.total, cursor.before) == (6, 4)


def test_nanoseconds_are_kept_to_the_last():
    cursor = LogCursor(time=1_700_000_000_123_456_789, taken=1, total=10**9)
    assert LogCursor.parse(json.loads(json.dumps(cursor.json))) == cursor


@pytest.mark.parametrize("stored", [None, {}, [], "x", 1.5, {"time": "x", "taken": -1, "total": True, "ended": 1}])
def test_what_is_no_cursor_is_the_beginning(stored):
    assert LogCursor.parse(stored) == LogCursor()
