"""A sweep while a process here runs it: written down before its first run, shown as it goes, told however it ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from nemo_runspec.backends import get_backend
from nemo_runspec.console import Say
from nemo_runspec.errors import UserError, first_line
from nemo_runspec.interrupts import EXIT_CODES, WORDS, Interrupted, Interrupts
from nemo_runspec.planning.missing_values import refuse_unfilled
from nemo_runspec.planning.planned import Planned
from nemo_runspec.plans.model import Plan
from nemo_runspec.records.cancel_request import read_request
from nemo_runspec.records.process import this_process
from nemo_runspec.records.record import now
from nemo_runspec.sweeps.console import SweepCaller
from nemo_runspec.sweeps.model import Member, Sweep
from nemo_runspec.sweeps.results import conclude
from nemo_runspec.sweeps.run import RunContext, RunMember
from nemo_runspec.sweeps.status import exit_code, state_of_all
from nemo_runspec.sweeps.store import SweepStore

Recorded = Callable[[Sweep], object]
"""Called once the sweep is written down and before anything runs: whoever waits for that may go."""


class SweepLifecycle:
    """One sweep, from its record to its table.

    Args:
        sweep: as far as it is known.
        caller: who wants it, and is told how it goes.
        run_member: runs one plan to its end.
    """

    def __init__(self, sweep: Sweep, caller: SweepCaller, run_member: RunMember, recorded: Recorded) -> None:
        self.sweep = sweep
        self.caller = caller
        self.run_member = run_member
        self.recorded = recorded
        self.store = SweepStore()
        self.interrupts = Interrupts()
        self.folder = self.store.folder(sweep.group)

    @contextmanager
    def session(self, planned: Sequence[Planned], sweep: Sweep) -> Iterator[None]:
        """The time in which others see the sweep and may end it; its end is written down.

        Args:
            planned: what is run, or the like of it.
            sweep: what is written down, but for who runs it where.

        Raises:
            UserError: something speaks against running it; nothing was written down then.
        """
        with self.interrupts:
            self._begin(planned, sweep)
            try:
                yield
            except Interrupted as error:
                self.caller.console.say(f"cancelled before the first {self.sweep.run_noun} was started")
                self._conclude(error)
            except BaseException as error:
                self._conclude(error)
                raise
            else:
                self._conclude(None)

    @contextmanager
    def watched(self, planned: Sequence[Planned], keys: Sequence[str], total: int | None) -> Iterator[RunContext]:
        """Opens the members' context and one display of them, once what they need in common is made.

        Args:
            keys: the overrides that differ.
            total: how many runs there will be, None where nobody knows.
        """
        with self.interrupts.raised():
            _prepare_once(planned, self.caller.console.say)
        for line in dict.fromkeys(line for each in planned for line in each.plan.warnings):
            self.caller.console.say(f"warning: {line}")
        with self.caller.console.display(self.sweep, keys, total) as display:
            yield RunContext(self.sweep.group, self.caller.argv, self.interrupts, display, self.run_member)

    def note(self, members: Sequence[Member]) -> None:
        """Writes the members down as they are now."""
        self.sweep = replace(self.sweep, members=tuple(members))
        self.store.write(self.sweep)

    def place(self, member: Member) -> None:
        """Writes down one member as it is now."""
        self.note([member if member.index == other.index else other for other in self.sweep.members])

    def _begin(self, planned: Sequence[Planned], sweep: Sweep) -> None:
        for each in planned:
            refuse_unfilled(each.plan)
        first = planned[0].plan
        _check(first)
        self.sweep = replace(
            sweep, launcher=this_process(), host=os.uname().nodename, profile=first.profile, executor=first.executor
        )
        self.store.write(self.sweep)
        self.recorded(self.sweep)

    def _conclude(self, error: BaseException | None) -> None:
        """However it ended, the sweep is compared, shown and written down.

        That it has ended is written last: whoever waited for it, or removes it then, finds all of it.
        """
        verdict, code, cause = self._ending(error)
        self.sweep = replace(self.sweep, ended=now(), verdict=verdict, exit_code=code, cause=cause)
        try:
            if any(member.record or member.problem for member in self.sweep.members):
                conclude(self.sweep, self.folder, self.caller.console)
        finally:
            self.store.write(self.sweep)

    def _ending(self, error: BaseException | None) -> tuple[str, int, str]:
        """State, exit code and, where the members do not say it, cause of the sweep's end."""
        if self.interrupts.seen:
            number, request = signal.Signals(self.interrupts.seen[0]), read_request(self.folder)
            return "cancelled", EXIT_CODES[number], f"cancelled by {request.by if request else WORDS[number]}"
        if error is None:
            return state_of_all(self.sweep.members), exit_code(self.sweep.members), ""
        if isinstance(error, UserError):  # an input that was cancelled has cancelled the sweep
            cancelled = error.exit_code in EXIT_CODES.values()
            return "cancelled" if cancelled else "failed", error.exit_code, error.what
        return "failed", 1, f"{type(error).__name__}: {first_line(error)}"


def is_remote(plan: Plan) -> bool:
    """True if it runs on another machine."""
    return get_backend(plan.executor).remote


def is_platform_managed(plan: Plan) -> bool:
    """True if the platform has all runs of a grid at once, and no process of this machine leads them."""
    if not is_remote(plan):
        return False
    from nemo_runspec.sweeps.remote import is_bounded_here

    return not is_bounded_here(plan)


def _check(plan: Plan) -> None:
    """Raises `UserError` where runs of this kind cannot be run, in this release or on this machine."""
    backend = get_backend(plan.executor)
    if backend.remote:
        backend.load_provider().check(plan)
    else:
        backend.load_worker().check(plan)


def _prepare_once(planned: Sequence[Planned], say: Say) -> None:
    """The environments or images that the runs need, each made or fetched once and not by several runs at a time."""
    needed = {(each.plan.python, each.plan.target.container_image): each.plan for each in planned}
    for plan in needed.values():
        if not is_remote(plan):
            get_backend(plan.executor).load_worker().prepare(plan, say)
