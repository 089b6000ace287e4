"""The life of a job elsewhere beside its handle: attempts, deadlines, who wanted it to stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Launcher:
    """The process that watches over an attached job.

    Args:
        pid: its process id.
        started: when it started, as the kernel says it, so that another process with the same
            id is not taken for it.
        machine: boot and process namespace the id is valid in.
    """

    pid: int
    started: str
    machine: str


@dataclass(frozen=True, slots=True)
class Absence:
    """Looks at a platform that did not find the job.

    Args:
        looks: how many.
        first, last: when, seconds since 1970.
        stop: whether somebody had wanted the job to stop by the first of them.
    """

    looks: int
    first: float
    last: float
    stop: bool = False


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt that failed and was followed by another.

    Args:
        handle: how its backend finds it.
        id: the platform's.
        nodes: where it ran.
        kind, what: of its diagnosis.
    """

    handle: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    nodes: str = ""
    kind: str = ""
    what: str = ""


@dataclass(frozen=True, slots=True)
class PendingAttempt:
    """The next attempt while it is being submitted. Whoever is cut off leaves the rest to the next one that asks.

    Args:
        sent: when its request was sent, seconds since 1970.
        failed: the attempt before it.
        after: why there is another, in words.
        avoid: nodes it is not to run on.
        resumed: somebody else has begun to send it, so it may have been sent.
        absence: looks that did not find it.
    """

    sent: float
    failed: FailedAttempt = field(default_factory=FailedAttempt)
    after: str = ""
    avoid: tuple[str, ...] = ()
    resumed: bool = False
    absence: Absence | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which attempt of a job runs, where nemotron submits one that failed through no fault of its own again.

    Args:
        number: from 0.
        limit: how many there may be.
        avoid_failed_nodes: whether further attempts do without nodes that were at fault.
        avoid: those nodes.
        tried: the attempts that failed, the oldest first.
        pending: the next one while it is being submitted.
    """

    limit: int
    number: int = 0
    avoid_failed_nodes: bool = False
    avoid: tuple[str, ...] = ()
    tried: tuple[FailedAttempt, ...] = ()
    pending: PendingAttempt | None = None

    @property
    def is_last(self) -> bool:
        """True if no other one may follow."""
        return self.number + 1 >= self.limit


@dataclass(frozen=True, slots=True)
class TimedOut:
    """A job whose time was up: why it is stopped, and the diagnosis of what kept it from running until then."""

    cause: str
    diagnosis: Mapping[str, Any] = field(default_factory=dict)


PHASES = ("queue", "pull", "start")
"""What a job waits for before it runs, each with a deadline of its own."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long a job may wait.

    Args:
        queue, pull, start: seconds for nodes, for its image and for its start; None or 0 for as long as it takes.
        action: `warn`, `stop`, or '' for what is usual in each phase.
        timed_out: set once one of them has passed and the job is stopped for that.
    """

    queue: float | None = None
    pull: float | None = None
    start: float | None = None
    action: str = ""
    timed_out: TimedOut | None = None

    def limit(self, phase: str) -> float | None:
        """Seconds that a phase may take."""
        return dict(zip(PHASES, (self.queue, self.pull, self.start), strict=True)).get(phase)


@dataclass(frozen=True, slots=True)
class Cancellation:
    """That a job is to stop.

    Args:
        by: who wanted it first, for a person; '' where nobody asked.
        deleted: nemotron has deleted the job, and its platform has acknowledged that.
    """

    by: str = ""
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Relations:
    """How a job stands to jobs that make what others read.

    Args:
        needs: names of the jobs whose outputs it waits for.
        made_for: of those that its output is made for.
        on_demand: it was submitted for one of these, and ends with them.
        awaited_by: processes that wait for its end before they submit theirs.
    """

    needs: tuple[str, ...] = ()
    made_for: tuple[str, ...] = ()
    on_demand: bool = False
    awaited_by: tuple[Launcher, ...] = ()
