"""run:ai's phases in the words that all platforms share.

The phases are those of run:ai's published API, 2.24 (`phase` of a workload).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nemo_runspec.transport.reading import text


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a phase is. `waits`: which of the deadlines runs, `queue`, `pull`, `start` or ''; `said`: in words."""

    state: str
    waits: str = ""
    said: str = ""


PHASES: Mapping[str, Meaning] = {
    "Creating": Meaning("queued", "queue", "run:ai is creating it"),
    "Resuming": Meaning("queued", "queue", "run:ai is starting it again"),
    "Pending": Meaning("queued", "queue", "waiting for resources"),
    "Initializing": Meaning("starting", "pull", "its pods are being made ready"),
    "Running": Meaning("running"),
    "Updating": Meaning("running", "", "run:ai is changing it"),
    "Degraded": Meaning("starting", "start", "degraded: not all of its pods run"),
    "Stopping": Meaning("running", "", "stopping"),
    "Terminating": Meaning("running", "", "being ended"),
    "Deleting": Meaning("running", "", "being deleted"),
    "Stopped": Meaning("cancelled", "", "stopped"),
    "Failed": Meaning("failed"),
    "Completed": Meaning("succeeded"),
    "Unknown": Meaning("unknown", "", "run:ai does not know its phase"),
}

ENDING = frozenset({"Stopping", "Terminating", "Deleting"})
"""Phases of a workload that is being ended, whether its pods ever ran or not."""

WHOLE = Meaning("running", "", "degraded, though all of its pods run")
"""Of a workload that is `Degraded` for something else than a pod, such as its network."""

PLACED = Meaning("starting", "pull", "its pods are being made ready")
"""Of a workload whose pods all have a node, whatever run:ai calls it."""

NEVER_RAN = Meaning("starting", "", "being ended; it has not run")
"""Of a workload that is being ended and whose pods never ran."""

EXIT_CODES: Mapping[str, int] = {"succeeded": 0, "cancelled": 143, "failed": 1}
"""Where nothing better is known."""


def meaning(phase: str) -> Meaning:
    """What a phase is; a word that is not known here stays unknown and is said as it is."""
    return PHASES.get(phase) or Meaning("unknown", "", f"run:ai calls it {phase!r}" if phase else "run:ai says nothing")


def meaning_of(row: Mapping[str, Any]) -> Meaning:
    """What run:ai's row of a workload says that it is."""
    phase = text(row.get("phase")) or text(row.get("actualPhase"))
    return WHOLE if phase == "Degraded" and _all_run(row) else meaning(phase)


def is_begun(row: Mapping[str, Any]) -> bool:
    """Whether it may have run as a whole before: of a degraded one some pods do not run, yet or any more."""
    return row.get("phase") == "Degraded" and not _all_run(row)


def _all_run(row: Mapping[str, Any]) -> bool:
    """Whether as many pods run as were asked for, or it is not said how many do."""
    wanted, running = row.get("requestedPods"), row.get("runningPods")
    number = wanted.get("number") if isinstance(wanted, Mapping) else None
    return not isinstance(running, int) or not isinstance(number, int) or running >= number
