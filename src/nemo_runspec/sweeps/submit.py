"""A sweep started: led by this process, by one without a terminal, or left to its platform."""

from __future__ import annotations

from collections.abc import Sequence

from nemo_runspec.console import note
from nemo_runspec.planning.planned import PlanRequest
from nemo_runspec.records import JobStore
from nemo_runspec.supervise.spawn import start_in_new_process
from nemo_runspec.sweeps.console import SweepCaller, SweepConsole
from nemo_runspec.sweeps.detached import detached_sweep
from nemo_runspec.sweeps.lead import run_sweep, runs_unattended
from nemo_runspec.sweeps.retry import retry_sweep


def start_sweep(request: PlanRequest, caller: SweepCaller) -> int:
    """Runs a sweep; detached, or left to its platform, returns once it is written down. The exit code.

    Raises:
        UserError: a mistake, before anything is run; or an input or a sweeper that has failed.
    """
    attached = caller.attached and request.mode != "batch"
    if attached or runs_unattended(request):
        return run_sweep(request, caller)
    return detached_sweep(lambda recorded: run_sweep(request, caller, recorded=recorded), caller)


def submit_sweep(request: PlanRequest, caller: SweepCaller) -> str:
    """Starts a sweep from a new process; its name.

    Raises:
        UserError: as `start_sweep`.
    """
    return start_in_new_process(_submit, request, tuple(caller.argv), say=caller.console.say)


def submit_retry(group: str, caller: SweepCaller) -> str:
    """Runs the failed runs of a sweep again, from a new process; its name.

    Raises:
        UserError: as `retry_sweep`.
    """
    return start_in_new_process(_retry, group, tuple(caller.argv), say=caller.console.say)


class _Answer(SweepConsole):
    """Of a process whose standard output is for its answer alone."""

    name = ""

    def say(self, text: str) -> None:
        """A line on the error stream."""
        note(text)

    def answer(self, text: str) -> None:
        """The sweep's name."""
        self.name = text


def _submit(request: PlanRequest, argv: Sequence[str]) -> str:
    console = _Answer()
    start_sweep(request, SweepCaller(argv, console))
    return console.name


def _retry(group: str, argv: Sequence[str]) -> str:
    console = _Answer()
    retry_sweep(JobStore(), group, SweepCaller(argv, console))
    return console.name
