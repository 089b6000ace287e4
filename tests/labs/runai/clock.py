"""A control plane whose clock goes ahead of this machine's: every time in its answers is later by that much."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z")


def shifted(answer: Any, seconds: float) -> Any:
    """JSON, text or lines with each RFC 3339 time of UTC in them moved by so many whole seconds."""
    if isinstance(answer, str):
        return _TIME.sub(lambda found: f"{_moved(found[1], seconds)}{found[2] or ''}Z", answer)
    if isinstance(answer, bytes):
        return shifted(answer.decode("utf-8", "surrogateescape"), seconds).encode("utf-8", "surrogateescape")
    if isinstance(answer, dict):
        return {key: shifted(value, seconds) for key, value in answer.items()}
    if isinstance(answer, list):
        return [shifted(item, seconds) for item in answer]
    return (shifted(part, seconds) for part in answer) if isinstance(answer, Iterator) else answer


def _moved(text: str, seconds: float) -> str:
    then = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    return f"{then + timedelta(seconds=round(seconds)):%Y-%m-%dT%H:%M:%S}"
