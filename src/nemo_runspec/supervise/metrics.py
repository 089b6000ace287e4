"""The last value of each metric a job has written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nemo_runspec.supervise.progress import parse_metrics

_BOOKKEEPING = frozenset({"total_steps"})


def last_metrics(file: Path) -> dict[str, float]:
    """Metric → its last value, numbers only; empty where nothing was written. Works for files of any size."""
    last: dict[str, float] = {}
    try:
        with file.open("rb") as lines:
            for line in lines:
                last.update(_numbers(parse_metrics(line) or {}))
    except OSError:
        return last
    return last


def _numbers(record: dict[str, Any]) -> dict[str, float]:
    return {
        name: value
        for name, value in record.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and name not in _BOOKKEEPING
    }
