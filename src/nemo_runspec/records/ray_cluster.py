"""The report of a job's Ray cluster, as its node 0 has written it down (`jobside/ray_report.py`)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from nemo_runspec.jobside.ray_report import ENDED, REPORT, RUNNING, STARTING
from nemo_runspec.typed_json import read_value

__all__ = [
    "ENDED",
    "REPORT",
    "RUNNING",
    "STARTING",
    "RayDashboard",
    "RayNodeStatus",
    "RayStatus",
    "RayWork",
    "read_cluster",
]

ALIVE = "alive"


@dataclass(frozen=True, slots=True)
class RayNodeStatus:
    """One node of a cluster.

    Args:
        name: as Ray calls it, `node-0` is the head.
        state: `alive` or `lost`.
        why: of one that is lost.
        total: its resources; memory in bytes.
        used: of these, None where that is not known.
    """

    name: str
    state: str
    address: str = ""
    host: str = ""
    why: str = ""
    total: dict[str, float] = field(default_factory=dict)
    used: dict[str, float] | None = None


@dataclass(frozen=True, slots=True)
class RayWork:
    """What runs, or waits: `count` actors, tasks or bundles of a placement group (`kind`) of one name and state.

    Args:
        node: the name of the node, '' where it has none yet.
    """

    kind: str
    name: str
    node: str
    state: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class RayDashboard:
    """Where the dashboard listens: a port of the head's loopback. `token`: the file there that has the cluster's."""

    port: int
    token: str = ""


@dataclass(frozen=True, slots=True)
class RayStatus:
    """A cluster as it was seen. Times are seconds since 1970, by the head's clock.

    Args:
        phase: `starting`, `running` or `ended`.
        at: when this was seen.
        ended: when it was told to end.
        count: nodes that it is to have.
        ray, python: versions.
        interpreter: the Python that runs it.
        root: the job's directory, by its name there.
        left_out: entries of `work` beyond those there are.
        untold: kinds of work that this Ray does not tell.
        unknown_since: since when Ray's head cannot be asked.
        problem: why.
    """

    phase: str
    at: float
    count: int
    ended: float | None = None
    ray: str = ""
    python: str = ""
    interpreter: str = ""
    root: str = ""
    address: str = ""
    dashboard: RayDashboard | None = None
    nodes: tuple[RayNodeStatus, ...] = ()
    work: tuple[RayWork, ...] = ()
    left_out: int = 0
    untold: tuple[str, ...] = ()
    unknown_since: float | None = None
    problem: str = ""

    @property
    def alive(self) -> int:
        """How many of its nodes are there."""
        return sum(node.state == ALIVE for node in self.nodes)


def read_cluster(text: str) -> RayStatus | None:
    """A report; None for what is none, or none that is whole."""
    try:
        found: Any = json.loads(text)
        return read_value(RayStatus, found, REPORT, lenient=True)
    except (ValueError, TypeError, RecursionError):
        return None
