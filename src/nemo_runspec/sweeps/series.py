"""A metric over the steps of one member, read from the lines its job has appended."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from nemo_runspec.jobside.downsample import numbers
from nemo_runspec.regular import open_regular

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
        with os.fdopen(open_regular(file, follow=True), "rb") as lines:
            for line in lines:
                record = numbers(line)
                step = record.get("step", step + 1)
                if metric in record:
                    points.append((float(step), float(record[metric])))
    except OSError:
        return Series()
    every = max(1, len(points) // POINTS)
    kept = points[::every] + (points[-1:] if (len(points) - 1) % every else [])
    return Series(tuple(x for x, _ in kept), tuple(y for _, y in kept))
