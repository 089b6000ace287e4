"""The end of a log is found in the engine's copy: nothing lost, nothing twice, whatever the log looks like."""

from __future__ import annotations

import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_runspec.backends.docker.log_tail import OURS, add_rest, lines_of
from nemo_runspec.redact import LineFilter

SECRET = "hunter22"
LINES = st.lists(st.sampled_from([b"\n", b"a\n", b"b\n", "é\n".encode(), b"10%\rx\n", f"is {SECRET}!\n".encode()]))


def log_of(output: bytes, secrets: tuple[str, ...] = (SECRET,)) -> bytes:
    """What the supervisor would have written of it."""
    clean = LineFilter(secrets)
    return clean.feed(output) + clean.close()


def completed(log: bytes, engine: bytes, *secrets: str, piece: int = 5) -> bytes:
    """The log after the rest was added from the engine's copy, which comes in small pieces."""
    file = io.BytesIO(log)
    add_rest(file, lambda: (engine[n : n + piece] for n in range(0, len(engine), piece)), secrets or (SECRET,))
    return file.getvalue()


def without_ours(log: bytes) -> bytes:
    return b"".join(line for line in log.splitlines(keepends=True) if not line.startswith(OURS.encode()))


@given(lines=LINES, cut=st.integers(0, 400), piece=st.integers(1, 40))
def test_wherever_the_writer_was_killed_the_log_becomes_whole(lines, cut, piece):
    """Also in the middle of a line, and with lines that are all alike."""
    whole = log_of(b"".join(lines))
    assert completed(whole[:cut], b"".join(lines), piece=piece) == whole


@given(lines=LINES)
def test_once_more_changes_nothing(lines):
    once = completed(b"", b"".join(lines))
    assert completed(once, b"".join(lines)) == once


@given(pieces=st.lists(st.binary(max_size=9)))
def test_lines_are_those_of_the_whole(pieces):
    assert list(lines_of(pieces)) == io.BytesIO(b"".join(pieces)).readlines()


def test_a_last_line_without_an_end_gets_the_engines_end():
    assert completed(b"one\ntwo", b"one\ntwo\n") == b"one\ntwo\n"
    assert completed(b"one\ntwo\n", b"one\ntwo") == b"one\ntwo\n"


def test_bytes_that_the_engine_cannot_keep_are_no_difference():
    """The json-file driver makes a replacement character of each."""
    log, engine = b"\xff\xfe one\ntwo\n", "\ufffd\ufffd one\ntwo\nthree\n".encode()
    assert completed(log, engine) == log + b"three\n"


@pytest.mark.parametrize("kept", [0, 40, 300, 700])
def test_of_a_copy_that_was_rotated_the_new_lines_are_added(kept):
    """`max-size`: the engine has only the last lines."""
    lines = [b"line %d\n" % n for n in range(1000)]
    log, engine = b"".join(lines[:800]), b"".join(lines[800 - kept :])
    found = completed(log, engine)
    assert without_ours(found) == b"".join(lines)
    assert found.count(OURS.encode()) == 1
    assert completed(found, engine) == found


def test_a_copy_that_begins_after_the_log_is_added_and_the_gap_is_said():
    found = completed(b"one\ntwo\n", b"eight\nnine\n")
    assert without_ours(found) == b"one\ntwo\neight\nnine\n"
    assert b"lines may be missing" in found.splitlines()[2]


def test_a_log_with_a_gap_is_gone_on_with():
    """The disk was full for some time."""
    lines = [b"line %d\n" % n for n in range(900)]
    log = b"".join(lines[:100] + lines[200:700])
    assert without_ours(completed(log, b"".join(lines))) == log + b"".join(lines[700:])


def test_a_line_that_cannot_be_gone_on_with_is_ended():
    assert without_ours(completed(b"one\ntorn", b"eight\n")) == b"one\ntorn\neight\n"


def test_a_secret_of_several_lines_is_no_reason_to_repeat():
    """Live it was hidden as one; the engine's copy comes in single lines."""
    secret = "first\nsecond"
    lines = [b"before\n", secret.encode() + b"\n", *(b"line %d\n" % n for n in range(400))]
    log = log_of(b"".join(lines[:300]), (secret,))
    found = completed(log, b"".join(lines), secret)
    assert without_ours(found) == log + b"".join(lines[300:])


def test_a_long_line_is_gone_on_with():
    long = b"".join(b"%d " % n for n in itertools.islice(itertools.count(), 300_000)) + b"\n"
    assert completed(long[: 1 << 19], long + b"end\n", piece=1 << 14) == long + b"end\n"
