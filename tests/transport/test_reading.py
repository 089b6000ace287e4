"""`transport.reading`: what a field of an answer is taken for, whatever it is."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_runspec.transport import reading

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(ANYTHING)
def test_every_reader_takes_everything(value: object):
    """And gives back its own type, finite and of a size that can be counted with."""
    assert isinstance(reading.text(value), str)
    assert isinstance(reading.table(value), dict)
    assert all(isinstance(each, dict) for each in reading.tables(value))
    assert all(isinstance(each, str) and each for each in reading.texts(value))
    for read in (reading.number, reading.whole, reading.count, reading.moment):
        found = read(value)
        assert found is None or (isinstance(found, (int, float)) and math.isfinite(found)), read
    assert abs(reading.whole(value) or 0) < 2**63
    assert (reading.count(value) or 0) >= 0


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("NaN", None), ("[-Infinity, 1e999, -1e999]", [None, None, None]), ("9" * 5000, None), ("12", 12),
        ('"\\ud800x"', "\ufffdx"), ('{"\\udfff": ["\\ud83d\\ude00"]}', {"\ufffd": ["\U0001f600"]}), ("1.5", 1.5),
        ("null", None),
    ],
)  # fmt: skip
def test_what_json_may_say_that_nobody_can_use(body: str, value: object):
    assert reading.parsed(body.encode()) == value


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b"<html>", b"[" * 200_000, b'{"a":' * 100_000])
def test_what_is_no_json(body: bytes):
    with pytest.raises(ValueError):
        reading.parsed(body)


@given(ANYTHING)
def test_what_was_written_as_json_is_read_again(value: object):
    """But for numbers that are none, or are too large."""
    found = reading.parsed(json.dumps(value).encode())
    assert json.dumps(found, allow_nan=False) is not None


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (1_700_000_000, 1.7e9), (1_700_000_000_000, 1.7e9), (1.7e15, 1.7e9), (1_700_000_000 * 10**9, 1.7e9),
        ("2023-11-14T22:13:20Z", 1.7e9), ("2023-11-14T22:13:20.123456789Z", 1700000000.123456),
        ("2023-11-14T22:13:20", 1.7e9), ("2023-11-15T00:13:20+02:00", 1.7e9), (0, None), (-5, None), (True, None),
        (1e300, None), (float("nan"), None), ("0001-01-01T00:00:00Z", None), ("soon", None), ("", None), ([1], None),
        ("9999-99-99T00:00:00Z", None),
    ],
)  # fmt: skip
def test_moments(value: object, seconds: float | None):
    assert reading.moment(value) == (None if seconds is None else pytest.approx(seconds))
