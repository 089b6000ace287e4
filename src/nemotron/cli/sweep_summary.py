"""A sweep among jobs: its row in a list, what is said of its end, and its JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nemo_runspec.errors import UserError
from nemo_runspec.records.record import code_and_why
from nemo_runspec.text import count, one_line
from nemotron.cli.job_formatting import coloured, short_time

if TYPE_CHECKING:
    from nemo_runspec.records.index import Entry
    from nemo_runspec.sweeps.model import Sweep
    from nemo_runspec.sweeps.overview import Overview
    from nemo_runspec.sweeps.status import Status

_FIRST = ("failed", "lost", "unknown", "cancelled", "running")
"""States that are told first, as what comes last may be cut."""


@dataclass(frozen=True)
class SweepNow:
    """A sweep as lists show it.

    Args:
        runs: state → how many of its runs are in it.
        members: its jobs, the first one first.
        sweep: None where only its jobs are left, or `problem` says why it cannot be read.
    """

    name: str
    status: Status
    runs: Mapping[str, int]
    members: Sequence[Entry] = ()
    sweep: Sweep | None = None
    problem: str = ""

    @property
    def created(self) -> str:
        """When it was recorded, UTC, ISO 8601."""
        return self.sweep.created if self.sweep else self.members[0].created if self.members else ""


def sweep_now(overview: Overview, name: str) -> SweepNow:
    """What there is to show of a sweep; its jobs are not read."""
    from nemo_runspec.sweeps.status import Status, state_for, status_of

    members = overview.members(name)
    problem = ""
    if any(entry.name == name for entry in overview.sweeps):
        try:
            sweep = overview.sweep_store.read(name)
            return SweepNow(name, status_of(sweep), _runs(sweep, members), members, sweep)
        except UserError as error:
            problem = error.what
    runs = Counter(entry.state for entry in members)
    status = Status("unknown", problem) if problem else Status(state_for(runs))
    return SweepNow(name, status, runs, members, None, problem)


def sweep_row(found: SweepNow) -> tuple[str, ...]:
    """Its line in a list."""
    known = found.sweep or (found.members[-1] if found.members else None)
    where = known.profile or known.executor if known else ""
    return (
        found.name,
        found.status.state,
        short_time(found.created),
        count(sum(found.runs.values()), found.sweep.run_noun if found.sweep else "run"),
        where,
        _joined(tagged(found.sweep.tags), _remark(found), found.sweep.note) if found.sweep else _remark(found),
    )


def sweep_said(found: SweepNow, more: str = "") -> str:
    """How it ended, in a line."""
    status = found.status
    rest = code_and_why(status.exit_code or None, _remark(found))
    return f"{found.name}:{more} {coloured(status.state, status.state)}{rest}"


def sweep_json(found: SweepNow) -> dict[str, Any]:
    """It as `--json` shows it."""
    sweep, status = found.sweep, found.status
    known: dict[str, Any] = {"problem": found.problem} if found.problem else {}
    if sweep:
        names = ("recipe", "profile", "executor", "sweeper", "ended", "cause", "note")
        known = {"argv": list(sweep.argv), "tags": list(sweep.tags), **{name: getattr(sweep, name) for name in names}}
    return {
        "kind": sweep.kind if sweep else "sweep",
        "name": found.name,
        "state": status.state,
        "reason": status.reason,
        "exit_code": status.exit_code,
        "created": found.created,
        "over": status.over,
        **known,
        "runs": dict(found.runs),
    }


def in_words(runs: Mapping[str, int]) -> str:
    """`1 failed, 2 succeeded`, what matters most first."""
    order = sorted(runs, key=lambda state: (state not in _FIRST, _FIRST.index(state) if state in _FIRST else 0))
    return ", ".join(f"{runs[state]} {state}" for state in order)


def _runs(sweep: Sweep, members: Sequence[Entry]) -> Counter[str]:
    known = {entry.name: entry.state for entry in members}
    planned = [known.pop(member.name, member.state) for member in sweep.members]
    again = {name for member in sweep.members for name in member.before}  # their places are taken
    return Counter([*planned, *(state for name, state in known.items() if name not in again)])


def _remark(found: SweepNow) -> str:
    """Counts and reason; first what matters more, as the end may be cut."""
    from nemo_runspec.sweeps.model import NOT_RUN

    reason = found.status.reason
    if found.status.state == "cancelled":
        return _joined(in_words(found.runs), reason)
    left_out = NOT_RUN if found.status.state == "lost" else ""  # the reason counts them
    return _joined(reason, in_words({state: number for state, number in found.runs.items() if state != left_out}))


def tagged(tags: Sequence[str]) -> str:
    """Tags before a remark."""
    return f"[{' '.join(tags)}]" if tags else ""


def _joined(*texts: str) -> str:
    return one_line("; ".join(filter(None, texts)))
