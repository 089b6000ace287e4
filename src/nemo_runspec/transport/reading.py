"""Reads somebody else's JSON: every field may be missing, of another type, huge or no number at all.

What is not of the wanted type counts as not said: '', None or nothing. A list that is null is an empty one, as servers
written in Go have it.
"""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

_DIGITS = 20
"""Of an integer: more than 64 bits hold is no count, no time and no id."""

_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
"""A time above the first number is in this part of a second: Lepton's reference does not say which it uses where."""

_LATEST = 253_402_300_800.0
"""The end of the year 9999, which is as far as `datetime` goes."""

_SURROGATES = re.compile("[\ud800-\udfff]")


def parsed(body: bytes) -> Any:
    """The JSON of an answer. What is no finite number, such as NaN or 1e999, is null; half a surrogate pair is U+FFFD.

    Raises:
        ValueError: it is no JSON, or nested too deeply.
    """
    try:
        found = json.loads(body, parse_constant=lambda _: None, parse_float=_finite, parse_int=_sized)
        return _whole_text(found) if b"\\u" in body else found
    except RecursionError:
        raise ValueError("nested too deeply") from None


def text(value: Any) -> str:
    """A string, or a whole number as one; '' for anything else."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def number(value: Any) -> float | None:
    """A finite number, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def whole(value: Any) -> int | None:
    """A whole number of 64 bits, None for anything else."""
    found = number(value)
    return int(found) if found is not None and found == int(found) and abs(found) < 2**63 else None


def count(value: Any) -> int | None:
    """A whole number that is not negative, None for anything else."""
    found = whole(value)
    return found if found is not None and found >= 0 else None


def table(value: Any) -> dict[str, Any]:
    """An object, an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def tables(value: Any) -> list[dict[str, Any]]:
    """The objects of a list, none of anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def texts(value: Any) -> list[str]:
    """The strings of a list that are not empty, none of anything else."""
    return [item for item in value if isinstance(item, str) and item] if isinstance(value, list) else []


def moment(value: Any) -> float | None:
    """Seconds since 1970 of an ISO 8601 date, or of a number in any part of a second; None for what is no time."""
    found = _seconds_of_date(value) if isinstance(value, str) else number(value)
    if found is None:
        return None
    found = next((found / part for limit, part in _UNITS if found >= limit), found)
    return found if 0 < found < _LATEST else None


def _seconds_of_date(value: str) -> float | None:
    # Python 3.10 reads three or six digits of a second, and Kubernetes writes up to nine.
    written = re.sub(r"\.(\d+)", lambda match: f".{match[1][:6]:0<6}", value.strip().replace("Z", "+00:00"))
    with suppress(ValueError, OverflowError):
        found = datetime.fromisoformat(written)
        return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()
    return None


def _finite(digits: str) -> float | None:
    found = float(digits)
    return found if math.isfinite(found) else None


def _sized(digits: str) -> int | None:
    return int(digits) if len(digits) <= _DIGITS else None


def _whole_text(value: Any) -> Any:
    """The same without halves of surrogate pairs: neither a terminal nor a file takes them."""
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, list):
        return [_whole_text(item) for item in value]
    if isinstance(value, dict):
        return {_whole_text(key): _whole_text(item) for key, item in value.items()}
    return value
