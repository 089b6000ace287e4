"""Facts that a job's platform reported when it was last asked, and notes about them: typed, and stored sparsely."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from nemo_runspec.duration import is_moment
from nemo_runspec.records.lifecycle import PHASES, Absence
from nemo_runspec.typed_json import field_types, plain, read_any


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What is known of a job beside its state. A default means that it is not known, and is not stored.

    Args:
        id: what its platform calls it.
        platform_state: its state in the platform's own word.
        nodes: where it runs, as the platform lists them, such as `n[1-4]` or `gpu-1,gpu-2`.
        attempt: which one, from 0.
        attempts: how many there may be, where there may be several.
        partition: the queue it waits in.
        position: its place there, from 1.
        queued: how many wait there.
        estimated: when it is expected to begin, seconds since 1970.
        elapsed: seconds that it has been running.
        waiting: what it waits for, in words.
        replicas: how many of its nodes are ready, in words.
        phase: what it waits for: `queue`, `pull`, `start`; '' for nothing; None where the platform was not asked.
        phase_since: when that began, seconds since 1970.
        failing: what it waits for has failed, and will again.
        failing_since: as `phase_since`.
        failed_for: how long it was left to fail, in words.
        overdue: which deadline has passed, in words.
        begun: some of its nodes run and others do not.
        unread: why its exit code or its results are not known yet, once it has ended.
        unanswered: what the platform did not tell of it, and why.
        absent: the looks that did not find it.
        asked: when it was asked, UTC, ISO 8601.
    """

    id: str = ""
    nodes: str = ""
    attempt: int | None = None
    attempts: int | None = None
    platform_state: str = ""
    partition: str = ""
    position: int | None = None
    queued: int | None = None
    estimated: float | None = None
    waiting: str = ""
    replicas: str = ""
    elapsed: float | None = None
    phase: str | None = None
    phase_since: float | None = None
    failing: bool = False
    failing_since: float | None = None
    failed_for: str = ""
    overdue: str = ""
    begun: bool = False
    unread: str = ""
    unanswered: str = ""
    absent: Absence | None = None
    asked: str = ""

    @property
    def waits_for(self) -> str:
        """Which of its deadlines runs: `queue`, `pull`, or `start`, also where nobody knows."""
        return self.phase if self.phase in PHASES else "start"

    def updated(self, newer: JobFacts) -> JobFacts:
        """These, with what the newer ones know in the place of what these do."""
        return replace(self, **_known(newer))

    def lasting(self) -> JobFacts:
        """Those of them that are a reason to write a record anew."""
        return replace(self, asked="", position=None, estimated=None, waiting="", elapsed=None)


def to_table(facts: JobFacts) -> dict[str, Any]:
    """The facts as they are stored: what is known alone."""
    return {name: plain(value) for name, value in _known(facts).items()}


def from_table(table: Mapping[str, Any]) -> JobFacts:
    """Stored facts. What an odd hand has put there is not known: the next look at the job finds it anew."""
    kinds = field_types(JobFacts)
    known: dict[str, Any] = {}
    for name in kinds.keys() & table.keys():
        try:
            known[name] = read_any(kinds[name], table[name], name, lenient=True)
        except (TypeError, OverflowError):
            continue
    asked = known.pop("asked", "")
    return JobFacts(**known, asked=asked if is_moment(asked) else "")


def _known(facts: JobFacts) -> dict[str, Any]:
    found = ((each, getattr(facts, each.name)) for each in fields(facts))
    return {each.name: value for each, value in found if value != each.default}
