"""A job of the lab and its replicas, as far as they are data."""

from __future__ import annotations

import secrets
import string
import time
from dataclasses import dataclass, field
from typing import Any

from labs.lepton.scenario import Issue, Scenario
from labs.pods import Pod
from labs.slurm.process import until

OVER = {"Completed", "Failed", "Stopped", "Archived", "Deleted"}


def suffix(length: int) -> str:
    """Random lower-case letters and digits."""
    return "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(length))


@dataclass
class Replica:
    """A pod of a job: from when it is wanted until long after its process ended.

    Args:
        node, group: ids, '' before it is placed.
        ready: it runs and counts as such.
    """

    id: str
    index: int
    node: str = ""
    group: str = ""
    issue: Issue | None = None
    since: float = field(default_factory=time.time)
    pod: Pod | None = None
    ready: bool = False
    gone: bool = False

    @property
    def running(self) -> bool:
        """Its process has not ended."""
        return self.pod is not None and self.pod.state == "running"

    @property
    def code(self) -> int | None:
        """Its exit code, None before it has one."""
        return self.pod.exit_code if self.pod else None

    def says(self, issue: Issue | None) -> None:
        """Sets why it is not ready."""
        self.issue, self.since = issue, time.time()


@dataclass
class Attempt:
    """One start of all replicas. `state` is how it ended, '' before."""

    name: str
    number: int
    scenario: Scenario
    began: float = field(default_factory=time.time)
    ended: float | None = None
    state: str = ""
    replicas: list[Replica] = field(default_factory=list)
    replaced: list[Replica] = field(default_factory=list)
    """Those that failed and were started again as others."""

    @property
    def everyone(self) -> list[Replica]:
        """All replicas, the replaced ones first, each once: one that is being replaced is among both."""
        now = list(self.replicas)
        return [*(old for old in list(self.replaced) if old not in now), *now]

    def close(self) -> None:
        """It is over: `Failed` where a replica failed, or the scenario says so."""
        told = self.scenario.failed
        failed = any(each.code for each in self.replicas) if told is None else told
        self.ended, self.state = time.time(), "Failed" if failed else "Completed"

    @property
    def counts(self) -> dict[str, int]:
        """How many run, are wanted or run, failed and succeeded, as it is told; all of one moment."""
        seen = [(each.code, each) for each in list(self.replicas)]
        codes = [code for code, _ in seen if code is not None]
        failed = sum(code != 0 for code in codes)
        if self.scenario.failed is not None and self.state in ("Failed", "Completed"):
            failed = len(codes) if self.scenario.failed else 0
        return {
            "ready": sum(code is None and each.ready for code, each in seen),
            "active": sum(code is None and not each.gone for code, each in seen),
            "failed": failed,
            "succeeded": len(codes) - failed,
        }


@dataclass
class Event:
    """What the platform writes down."""

    type: str
    reason: str
    message: str
    about: str
    time: float = field(default_factory=time.time)
    count: int = 1


@dataclass
class Job:
    """A job.

    Args:
        id: with the server's suffix. `name`: as the client called it. `body`: what was sent.
        state: a word of Lepton's. `wish`: `stop` or `delete`, what a client has asked for.
        deleted: clients do not find it any more.
    """

    id: str
    name: str
    body: dict[str, Any]
    created: float = field(default_factory=time.time)
    state: str = "Queueing"
    wish: str = ""
    ended: float | None = None
    deleted: bool = False
    attempts: list[Attempt] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    analysis: dict[str, Any] | None = None

    @property
    def spec(self) -> dict[str, Any]:
        """What was sent."""
        spec: dict[str, Any] = self.body["spec"]
        return spec

    @property
    def workers(self) -> int:
        """How many replicas it wants."""
        return int(self.spec.get("completions", 1))

    @property
    def replicas(self) -> list[Replica]:
        """Those of all attempts, the oldest first."""
        return [replica for attempt in list(self.attempts) for replica in attempt.everyone]

    @property
    def latest(self) -> Attempt | None:
        """The attempt that counts."""
        return self.attempts[-1] if self.attempts else None

    @property
    def archived(self) -> bool:
        """No longer among those that are alive."""
        return self.state == "Archived"

    @property
    def text(self) -> str:
        """All that its replicas have written."""
        return "".join(replica.pod.text for replica in self.replicas if replica.pod)

    def note(self, issue: Issue, about: str, count: int = 1) -> None:
        """Writes an issue's events down; those that are there already are counted up."""
        for type, reason, message in issue.events:
            same = [event for event in self.events if (event.reason, event.about) == (reason, about)]
            if same:
                same[0].count += count
                same[0].time = time.time()
            else:
                self.events.append(Event(type, reason, message, about, count=count))

    def wait_for(self, *states: str, seconds: float = 120) -> str:
        """Waits until it is in one of these states. Raises: LabError with its output."""
        until(lambda: self.state in states, f"{self.id} {states}", seconds, lambda: f"{self.state}\n{self.text}")
        return self.state
