"""run:ai's phases in the words that all platforms share.

The phases are those of run:ai's published API, 2.24 (`phase` of a workload).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.cloud.states import StateMapping, lookup
from nemo_runspec.transport.reading import table, text, whole

PHASES: Mapping[str, StateMapping] = {
    "Creating": StateMapping("queued", "queue", "run:ai is creating it"),
    "Resuming": StateMapping("queued", "queue", "run:ai is starting it again"),
    "Pending": StateMapping("queued", "queue", "waiting for resources"),
    "Initializing": StateMapping("starting", "pull", "its pods are being made ready"),
    "Running": StateMapping("running"),
    "Updating": StateMapping("running", "", "run:ai is changing it"),
    "Degraded": StateMapping("starting", "start", "degraded: not all of its pods run"),
    "Stopping": StateMapping("running", "", "stopping", ending=True),
    "Terminating": StateMapping("running", "", "being ended", ending=True),
    "Deleting": StateMapping("running", "", "being deleted", ending=True),
    "Stopped": StateMapping("cancelled", "", "stopped"),
    "Failed": StateMapping("failed"),
    "Completed": StateMapping("succeeded"),
    "Unknown": StateMapping("unknown", "", "run:ai does not know its phase"),
}

WHOLE = StateMapping("running", "", "degraded, though all of its pods run")
"""Of a workload that is `Degraded` for something else than a pod, such as its network."""

PLACED = StateMapping("starting", "pull", "its pods are being made ready")
"""Of a workload whose pods all have a node, whatever run:ai calls it."""

NEVER_RAN = StateMapping("starting", "", "being ended; it has not run")
"""Of a workload that is being ended and whose pods never ran."""


def mapping_of(row: Mapping[str, Any]) -> StateMapping:
    """What run:ai's row of a workload says that it is."""
    phase = phase_of(row)
    return WHOLE if phase == "Degraded" and _all_run(row) else lookup(PHASES, phase, "run:ai")


def phase_of(row: Mapping[str, Any]) -> str:
    """run:ai's own word: `phase` of a list and of a detail, `actualPhase` of a workload with its spec."""
    return text(row.get("phase")) or text(row.get("actualPhase"))


def is_begun(row: Mapping[str, Any]) -> bool:
    """True if it may have run as a whole before: of a degraded one some pods do not run, yet or any more."""
    return row.get("phase") == "Degraded" and not _all_run(row)


def _all_run(row: Mapping[str, Any]) -> bool:
    """True if as many pods run as were asked for, or it is not said how many do."""
    wanted, running = whole(table(row.get("requestedPods")).get("number")), whole(row.get("runningPods"))
    return wanted is None or running is None or running >= wanted
