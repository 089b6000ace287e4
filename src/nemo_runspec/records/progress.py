"""The progress of a running job: its step, how many there are, its loss, and when that many will have been done.

All of it comes from the lines that the job appends to `NEMOTRON_METRICS_FILE`; how many steps there are, from these or
from a config that says it. What neither says is not known.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nemo_runspec import paths
from nemo_runspec.jobside.downsample import numbers
from nemo_runspec.records.record import JobRecord
from nemo_runspec.regular import open_regular, read_regular_text
from nemo_runspec.typed_json import read_value

STEPS = ("step", "iteration", "global_step")
"""What a line of metrics calls its step; the first that it has counts."""

TOTALS = ("total_steps", "max_steps", "train_iters")
"""What it calls how many there will be."""

CONFIG_TOTALS = (
    "train.train_iters", "trainer.max_steps", "step_scheduler.max_steps", "grpo.max_num_steps", "train.max_steps",
    "training.max_steps", "train_iters", "max_steps", "total_steps",
)  # fmt: skip
"""What configs call the same: Megatron-Bridge, NeMo, NeMo Automodel, NeMo-RL, and others."""

_FETCHED = "progress.json"
_FIRST, _LAST = 4096, 16384
"""Bytes of a file's beginning and end that are read."""


@dataclass(frozen=True, slots=True)
class MetricsEnds:
    """The first line of a file of metrics, its last ones, and when it was written last, seconds since 1970."""

    first: str
    last: tuple[str, ...]
    changed: float


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """How far a job is.

    Args:
        first: the step of its first line.
        total: how many steps there will be.
        ran: seconds that it had run by its last line.
        read: when that was found, seconds since 1970, by this clock.
    """

    step: float | None = None
    total: float | None = None
    loss: float | None = None
    first: float | None = None
    ran: float | None = None
    read: float = 0.0

    @property
    def left(self) -> float | None:
        """Seconds until the last step, if they go on as they went; None where that cannot be known."""
        if None in (self.step, self.total, self.first, self.ran):
            return None
        step, total, first, ran = (float(each or 0) for each in (self.step, self.total, self.first, self.ran))
        if step <= first or total <= step or ran <= 0:
            return None
        return max(0.0, ran * (total - step) / (step - first) - (time.time() - self.read))

    def to_json(self) -> dict[str, Any]:
        """What `--json` shows."""
        known = {key: getattr(self, key) for key in ("step", "total", "loss")}
        return {**known, "eta_seconds": None if self.left is None else round(self.left)}


def total_in(config: Mapping[str, Any]) -> float | None:
    """How many steps a config wants, None where it says no positive number."""
    return next((found for key in CONFIG_TOTALS if (found := _positive(_value(config, key)))), None)


def progress_of(ends: MetricsEnds, record: JobRecord, started: float | None) -> TrainingProgress | None:
    """What the ends of its metrics say of a running job; None for nothing.

    Args:
        started: when it began, seconds since 1970, by the clock of the file's machine; None where that is not known.
    """
    last: dict[str, float] = {}
    for line in ends.last:
        last.update(numbers(line.encode()))
    first = _named(numbers(ends.first.encode()), STEPS)
    found = TrainingProgress(
        _named(last, STEPS), _named(last, TOTALS) or record.total_steps, last.get("loss"), first, read=time.time()
    )
    if found.step is None and found.loss is None:
        return None
    # Of a later attempt, the first line is of another one, and says nothing of how fast this one is.
    alone = not record.facts.attempt and not (record.attempt and record.attempt.number)
    return replace(found, ran=ends.changed - started) if alone and started is not None else found


def known_progress(record: JobRecord, folder: Path) -> TrainingProgress | None:
    """How far a running job is as far as it is known here; nobody is asked. None for a job that does not run."""
    if record.state != "running":
        return None
    since = record.running_since
    here = ends_of(folder / "metrics.jsonl")
    if here is not None and not record.handle:
        return progress_of(here, record, since.timestamp() if since else None)
    with suppress(OSError, ValueError, TypeError):
        return read_value(TrainingProgress, _table(folder), "progress", lenient=True)
    return progress_of(here, record, None) if here else None


def keep_progress(folder: Path, progress: TrainingProgress) -> None:
    """Writes down how far a job elsewhere is, for those who ask nobody."""
    import json

    with suppress(OSError, ValueError):
        paths.write_private(folder / _FETCHED, json.dumps(asdict(progress), allow_nan=False))


def ends_of(file: Path) -> MetricsEnds | None:
    """The ends of a file on this machine, None where nothing is in it. Of any size."""
    try:
        with os.fdopen(open_regular(file, follow=True), "rb") as stream:
            first = stream.read(_FIRST)
            size, changed = os.fstat(stream.fileno()).st_size, os.fstat(stream.fileno()).st_mtime
            stream.seek(max(0, size - _LAST))
            last = stream.read(_LAST)
    except OSError:
        return None
    if not first:
        return None
    return MetricsEnds(_lines(first)[0], tuple(_lines(last)), changed)


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").split("\n")


def _table(folder: Path) -> Any:
    import json

    return json.loads(read_regular_text(folder / _FETCHED))


def _named(record: Mapping[str, float], names: Iterable[str]) -> float | None:
    return next((record[name] for name in names if name in record), None)


def _value(config: Mapping[str, Any], key: str) -> Any:
    found: Any = config
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _positive(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and 0 < value < 1e15 else None
