"""Sweeps without jobs: members in any state, and what they have written."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from job_records import record

from nemo_runspec.sweeps.model import Member, Options, Sweep

ENDS = {"succeeded": 0, "failed": 3, "cancelled": 130}


def member(
    index: int,
    overrides: Mapping[str, str],
    metrics: Mapping[str, float] | None = None,
    *,
    state: str | None = "succeeded",
    top: Path = Path("/nowhere"),
    **values: Any,
) -> Member:
    """One member; `state` None: it was not run."""
    name = f"job-{index}"
    ended = None
    if state is not None:
        fields = {"exit_code": ENDS.get(state), "elapsed": 10.0 + index, "metrics": dict(metrics or {}), **values}
        ended = record(name, ("planned", "running", state), **fields)
    return Member(index, name, str(top / name), dict(overrides), ended)


def sweep_of(*members: Member, **options: Any) -> Sweep:
    """A sweep that has ended."""
    moment = "2026-11-21T08:00:00.000+00:00"
    return Sweep("sweep-test-1121-abcdefgh", "mine/train", moment, options=Options(**options), members=members)


def curve(top: Path, index: int, floor: float, steps: int = 40) -> None:
    """Writes the metrics of a run that went down to `floor`."""
    folder = top / f"job-{index}"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"step": s, "total_steps": steps, "loss": floor + 4 * math.exp(-s / 10)} for s in range(1, steps + 1)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
