"""The state of a sweep: one answer for all who ask, be it a list, the table of a sweep, or who waits for its end."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from nemo_runspec.records.process import Life, life_of
from nemo_runspec.records.record import is_over
from nemo_runspec.sweeps.model import NOT_RUN, PIPELINE, Member, Sweep
from nemo_runspec.text import count

_URGENT = (
    "running", "starting", "queued", "submitting", "planned", "failed", "lost", "unknown", "cancelled", NOT_RUN,
)  # fmt: skip
"""What several jobs are called after: the first of these that one of them is in, `succeeded` where none is."""


_GONE = frozenset({Life.DEAD, Life.RESTARTED})


@dataclass(frozen=True, slots=True)
class Status:
    """A sweep's state, in the words of jobs.

    Args:
        state: `planned` until its first member is started, then `running`; at the end as its members; `lost` where
            its process died before that, `unknown` where it cannot be seen from here. Of one that is alone, its
            members' at any time.
        reason: in words.
        exit_code: None while it goes on.
    """

    state: str
    reason: str = ""
    exit_code: int | None = None

    @property
    def over(self) -> bool:
        """True where there is nothing to wait for."""
        return is_over(self.state)

    def _repr_html_(self) -> str:
        from nemo_runspec.html import facts_table

        return facts_table(self.state, [("reason", self.reason), ("exit code", self.exit_code)])


def exit_code_of(status: Status) -> int:
    """What waiting for a sweep ends with: 0 for a success, else its own exit code, 1 where it has none."""
    return 0 if status.state == "succeeded" else status.exit_code or 1


def status_of(sweep: Sweep) -> Status:
    """The state of a sweep. Its members' records need not have been read, but for one that is alone."""
    if sweep.ended is not None:
        code = exit_code(sweep.members) if sweep.exit_code is None else sweep.exit_code
        return Status(sweep.verdict or state_of_all(sweep.members), sweep.cause, code)
    if _is_left_to_its_members(sweep):
        return _of_members(_counted(sweep))
    life = Life.DEAD if sweep.launcher is None else life_of(sweep.launcher, sweep.host)
    if life is Life.ALIVE:
        return Status("running" if any(member.started for member in sweep.members) else "planned")
    if life is Life.OTHER_MACHINE:
        host = sweep.host or "another machine"
        return Status("unknown", f"it was started on {host}, which cannot be asked from here")
    if life is Life.OTHER_CONTAINER:
        return Status("unknown", f"it was started in another container of this machine ({sweep.host})")
    return Status("lost", _why_lost(sweep, life), 1)


def _is_left_to_its_members(sweep: Sweep) -> bool:
    """True if its members' states are its own: not while they are being submitted, and not where they never were."""
    if not sweep.unattended or sweep.launcher is None:
        return sweep.unattended
    life = life_of(sweep.launcher, sweep.host)
    return life is not Life.ALIVE and (life not in _GONE or any(member.record is not None for member in sweep.members))


def _counted(sweep: Sweep) -> list[Member]:
    """The members that say how it is. A stage that was never submitted says so; a run that was not is none."""
    return [m for m in sweep.members if m.record is not None or (sweep.kind == PIPELINE and m.state == NOT_RUN)]


def _of_members(members: Sequence[Member]) -> Status:
    states = {member.state for member in members}
    state = state_for(states) if states else "unknown"
    code = exit_code(members) if is_over(state) else None
    reasons = {m.record.reason for m in members if m.record is not None and m.state == state == "unknown"}
    return Status(state, next(iter(sorted(reasons)), "") if states else "none of its jobs is known any more", code)


def state_of_all(members: Collection[Member]) -> str:
    """The state that stands for all members of a sweep that has ended."""
    return state_for({_last_known(member) for member in members})


def state_for(states: Collection[str]) -> str:
    """The state that stands for several jobs: what goes on comes first, then what went wrong."""
    found = next((state for state in _URGENT if state in states), "succeeded")
    return "cancelled" if found == NOT_RUN else found


def exit_code(members: Sequence[Member]) -> int:
    """What a sweep exits with: 0 where all have succeeded, else the code of the first member in the sweep's state."""
    state = state_of_all(members)
    if state == "succeeded":
        return 0
    return next((m.code for m in members if m.code and _last_known(m) == state), 1)


def _last_known(member: Member) -> str:
    """The member's state; of one whose job was removed since, the state that job had."""
    return member.was if member.record is None and member.was else member.state


def _why_lost(sweep: Sweep, life: Life) -> str:
    why = "the machine was restarted" if life is Life.RESTARTED else "its process was killed"
    left = sum(not member.started for member in sweep.members)
    if not left:
        return f"{why} before its end"
    return f"{why}; {count(left, sweep.run_noun)} {'was' if left == 1 else 'were'} not started"
