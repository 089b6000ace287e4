"""A sweep on another machine: submitted, and then either left to it or stayed with until the table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from nemo_runspec.console import Console
from nemo_runspec.errors import UserError, first_line
from nemo_runspec.planning.missing_values import refuse_unfilled
from nemo_runspec.planning.planned import Planned
from nemo_runspec.records import JobStore
from nemo_runspec.records.process import this_process
from nemo_runspec.redact import redact_argv
from nemo_runspec.remote.awaited_end import await_ends
from nemo_runspec.remote.cancel import end_makers, stop_all
from nemo_runspec.remote.input_jobs import only_for
from nemo_runspec.remote.prompt import Choice
from nemo_runspec.sweeps.array_follow import ArrayFollower, fetch_failed_logs, fetch_metrics
from nemo_runspec.sweeps.console import SweepCaller, SweepConsole
from nemo_runspec.sweeps.model import Member, Sweep, member_of, options_of
from nemo_runspec.sweeps.remote import RemoteSweep, end_now, how_it_goes, parallel_of
from nemo_runspec.sweeps.results import conclude
from nemo_runspec.sweeps.settle import settled
from nemo_runspec.sweeps.status import exit_code
from nemo_runspec.sweeps.store import SweepStore
from nemo_runspec.sweeps.table import varying_keys
from nemo_runspec.text import count

_INTERRUPTED = 130


def run_sweep_elsewhere(
    sweep: Sweep, planned: Sequence[Planned], caller: SweepCaller, *, needs: Sequence[str] = ()
) -> int:
    """Submits the runs of a grid; attached, stays until all are over.

    Args:
        needs: names of jobs that all runs wait for.

    Returns: detached 0, attached as `run_sweep`; 130 where the terminal was given back while it goes on.

    Raises:
        UserError: they cannot be submitted.
    """
    for each in planned:
        refuse_unfilled(each.plan)
    for line in dict.fromkeys(line for each in planned for line in each.plan.warnings):
        caller.console.say(f"warning: {line}")
    return _Elsewhere(sweep, planned, caller, needs).run()


class _Elsewhere:
    def __init__(self, sweep: Sweep, planned: Sequence[Planned], caller: SweepCaller, needs: Sequence[str]) -> None:
        first = planned[0]
        self.console = caller.console
        self.console.hide(first.secret_values.values())
        options = options_of(first.plan)
        self.detached = first.plan.mode == "batch" or not caller.attached
        self.needs = needs
        self.store = SweepStore()
        self.runs = RemoteSweep(sweep.group, planned, caller.argv, options, self.console.say, needs=needs)
        self.sweep = replace(
            sweep,
            argv=tuple(redact_argv(caller.argv, first.secret_values.values())),
            options=replace(options, max_parallel=parallel_of(first.plan) or len(planned)),
            members=tuple(member_of(index, each.plan) for index, each in enumerate(planned)),
            launcher=this_process(),
            host=os.uname().nodename,
            profile=first.plan.profile,
            executor=first.plan.executor,
            unattended=True,
        )

    def run(self) -> int:
        """The exit code."""
        self.store.write(self.sweep)
        try:
            self._submit()
        except KeyboardInterrupt:
            return cancel_interrupted(self.console, self.sweep.group, self.runs.names, self.needs)
        finally:
            self._leave_alone()
        if self.detached:
            await_ends(self.runs.records.values())
            self.console.answer(self.sweep.group)
            say_next_commands(self.console, self.sweep.group)
            return 0
        return self._stay()

    def _submit(self) -> None:
        how = how_it_goes(self.runs.batches)
        if how:
            self.console.say(f"{self.sweep.group}: {how}")
        self.runs.record_jobs()
        self.runs.submit()
        ids = ", ".join(f"{id} ({count(runs, 'run')})" for id, runs in self.runs.ids.items())
        self.console.say(f"{self.sweep.group}: submitted as {ids}")

    def _leave_alone(self) -> None:
        """Hands the sweep over: from here on its state is derived from its members', not from this process.

        Where none was recorded it has none to be left to, and is lost with this process.
        """
        if not any(JobStore().exists(name) for name in self.runs.names):
            return
        self.sweep = replace(self.sweep, launcher=None)
        self.store.write(self.sweep)

    def _stay(self) -> int:
        records = self.runs.records
        members = [replace(member, record=records[member.index]) for member in self.sweep.members]
        return AttachedSweep(self.console, self.sweep, members).run()


class AttachedSweep:
    """Stays with runs of a sweep until they are over, and shows the sweep then.

    Args:
        members: those that are stayed with, with their records.
    """

    def __init__(self, console: SweepConsole, sweep: Sweep, members: Sequence[Member]) -> None:
        self.console = console
        self.sweep = sweep
        self.members = members
        self.store = SweepStore()
        self.jobs = JobStore()
        self.asked_to_stop = False

    def run(self) -> int:
        """The sweep's exit code; 130 where the terminal was given back while it goes on."""
        display = self.console.display(self.sweep, varying_keys(self.sweep.members), len(self.members))
        ends_all = self.sweep.options.stop_on_failure
        follower = ArrayFollower(self.jobs, self.members, display, ends_all=ends_all, trouble=_SayOnce(self.console))
        while True:
            try:
                with display:
                    follower.run()
                return self._conclude(follower)
            except KeyboardInterrupt:
                answer = self.console.ask(self.sweep.group)
            if answer is Choice.DETACH:
                self.console.say(f"{self.sweep.group}: goes on without this terminal")
                say_next_commands(self.console, self.sweep.group)
                return _INTERRUPTED
            if answer is Choice.CANCEL:
                self._cancel(follower)

    def _cancel(self, follower: ArrayFollower) -> None:
        """TERM first; a second wish does not wait for the commands to save their work."""
        hard = self.asked_to_stop
        left = [m.record for m in follower.members.values() if m.record is not None and not m.record.over]
        try:
            stop_all([*left, *only_for(self.jobs, left)], "Ctrl-C", hard=hard)
        except UserError as error:
            self.console.say(f"{self.sweep.group}: not cancelled, it goes on; Ctrl-C asks again: {first_line(error)}")
            return
        self.asked_to_stop = True
        self.console.say(
            f"{self.sweep.group}: {'ended' if hard else 'asked to stop; cancel once more to end it at once'}"
        )

    def _conclude(self, follower: ArrayFollower) -> int:
        followed = {member.index: member for member in follower.members.values()}
        records = [member.record for member in followed.values() if member.record is not None]
        fetch_metrics(self.jobs, records)
        fetch_failed_logs(self.jobs, records)
        sweep = settled(self.store, self.sweep.group)
        members = tuple(followed.get(member.index, member) for member in sweep.members)
        conclude(replace(sweep, members=members), self.store.folder(sweep.group), self.console)
        return exit_code(members)


def cancel_interrupted(console: Console, group: str, names: Sequence[str], needs: Sequence[str] = ()) -> int:
    """Ends what was submitted of a sweep whose submission was interrupted; the exit code of that.

    Args:
        names: its jobs.
        needs: those that they wait for; what was submitted for them alone is ended too.
    """
    console.say(f"{group}: interrupted; looking whether it was submitted")
    try:
        end_now(JobStore(), names, "Ctrl-C")
        end_makers(JobStore(), needs, names, "Ctrl-C", console.say)
    except (UserError, KeyboardInterrupt) as error:
        why = f" ({first_line(error)})" if isinstance(error, UserError) else ""
        console.say(f"{group}: not known{why}; nemotron jobs status {group} finds out")
    return _INTERRUPTED


def say_next_commands(console: Console, group: str) -> None:
    """What can be asked of a sweep that goes on."""
    console.say(f"  nemotron jobs show {group}    nemotron jobs cancel {group}")


class _SayOnce:
    """Says what keeps a machine from being asked, once as long as it stays the same."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said = ""

    def __call__(self, text: str) -> None:
        if text != self._said:
            self._console.say(f"{text}; trying again")
        self._said = text
