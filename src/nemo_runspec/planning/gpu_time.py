"""GPU time that a job has used: its GPUs, as its plan has them, for as long as it ran."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from nemo_runspec.errors import UserError
from nemo_runspec.planning.codec import load_plan
from nemo_runspec.records.record import JobRecord

PLAN = "plan.json"


def gpus_of(folder: Path) -> int | None:
    """The GPUs of a recorded job over all nodes; None where its plan does not say it, or cannot be read.

    Args:
        folder: the job's, on this machine.
    """
    try:
        plan = load_plan(folder / PLAN)
    except UserError:
        return None
    return plan.target.gpus(plan.resources)


def run_seconds(record: JobRecord) -> float:
    """How long a job ran, over all its attempts as far as they were noticed, and until now where it still runs."""
    spans, began = 0.0, ""
    for step in record.states:
        if step.state == "running":
            began = began or step.time
        elif began and step.state != "unknown":
            spans, began = spans + _seconds(began, step.time), ""
    if began and not record.over:
        spans += _seconds(began, datetime.now(timezone.utc).isoformat())
    again = sum(step.state == "running" for step in record.states) > 1
    return spans if record.elapsed is None else max(record.elapsed, spans if again else 0.0)


def gpu_hours_used(record: JobRecord, folder: Path) -> float | None:
    """The GPU-hours that a job has used; None where its GPUs are not known."""
    gpus = gpus_of(folder)
    return None if gpus is None else gpus * run_seconds(record) / 3600


def _seconds(begin: str, end: str) -> float:
    return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds())
