"""The last value of each metric a job has written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nemo_runspec.supervise.progress import parse_metrics

_BOOKKEEPING = frozenset({"total_steps"})


def last_metrics(file: Path) -> dict[str, float]:
    """Metric → its last value, numbers only; empty where nothing was written. Works for files of any size."""
    try:
        with file.open("rb") as lines:
            return last_values(lines)
    except OSError:
        return {}


def last_values(lines: Iterable[bytes]) -> dict[str, float]:
    """The same of lines that are at hand; one that is not whole says nothing."""
    last: dict[str, float] = {}
    for line in lines:
        last.update(_numbers(parse_metrics(line) or {}))
    return last


def _numbers(record: dict[str, Any]) -> dict[str, float]:
    return {
        name: value
        for name, value in record.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and name not in _BOOKKEEPING
    }
