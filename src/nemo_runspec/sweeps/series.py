"""How a metric went over the steps of one member, read from the lines its job has appended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nemo_runspec.supervise.progress import parse_metrics

POINTS = 1000
"""A picture has no room for more."""


@dataclass(frozen=True, slots=True)
class Series:
    """Values of one metric; `steps` is as long as `values`."""

    steps: tuple[float, ...] = ()
    values: tuple[float, ...] = ()


def read_series(file: Path, metric: str) -> Series:
    """The values of a metric, thinned evenly to `POINTS`; empty where there are none.

    A line without a `step` counts as one step after the line before.
    """
    points: list[tuple[float, float]] = []
    step = -1.0
    try:
        with file.open("rb") as lines:
            for line in lines:
                record = parse_metrics(line) or {}
                value, said = _number(record.get(metric)), _number(record.get("step"))
                step = step + 1 if said is None else said
                if value is not None:
                    points.append((step, value))
    except OSError:
        return Series()
    every = max(1, len(points) // POINTS)
    kept = points[::every] + (points[-1:] if (len(points) - 1) % every else [])
    return Series(tuple(x for x, _ in kept), tuple(y for _, y in kept))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
