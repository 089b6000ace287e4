"""The metrics of a job: one meaning, wherever it ran. Its last values are those of every metric of the whole file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from nemo_runspec import paths
from nemo_runspec.jobside.downsample import numbers
from nemo_runspec.regular import open_regular

_BOOKKEEPING = frozenset({"total_steps"})

_APPENDED, _COLLECTED = "metrics.jsonl", "metrics-collected.jsonl"
"""What a job of this machine appends to, and what is fetched of one that runs meanwhile; what came with its results."""


def metrics_file(folder: Path) -> Path:
    """Where the metrics of a job are on this machine, the whole of them where it is over.

    Args:
        folder: the job's.
    """
    collected = folder / _COLLECTED
    return collected if collected.exists() else folder / _APPENDED


def keep_history(folder: Path, history: bytes) -> None:
    """Writes down the metrics that came with a job's results, for its curves.

    Raises:
        OSError: they cannot be written.
    """
    if history:
        paths.write_private(folder / _COLLECTED, history.decode("utf-8", "replace"))


def last_metrics(file: Path) -> dict[str, float]:
    """Metric → its last value, numbers only; empty where nothing was written. Works for files of any size."""
    try:
        with os.fdopen(open_regular(file, follow=True), "rb") as lines:
            return last_values(lines)
    except OSError:
        return {}


def last_values(lines: Iterable[bytes]) -> dict[str, float]:
    """The same of lines that are at hand; one that is not whole says nothing."""
    last: dict[str, float] = {}
    for line in lines:
        last.update(numbers(line))
    return {name: value for name, value in last.items() if name not in _BOOKKEEPING}
