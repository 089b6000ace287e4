"""Sizes as Docker writes them: `16g` is 16 × 1024³ bytes."""

from __future__ import annotations

import re

_SIZE = re.compile(r"(?P<number>[0-9]{1,18}(\.[0-9]{1,18})?)(?P<unit>[bkmgt]?)b?", re.IGNORECASE)
_POWERS = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def size_in_bytes(text: str) -> int | None:
    """The number of bytes, None where it is no size. As docker-py's `utils.parse_bytes` (7.2) reads it."""
    match = _SIZE.fullmatch(text.strip())
    return int(float(match["number"]) * 1024 ** _POWERS[match["unit"].lower()]) if match else None
