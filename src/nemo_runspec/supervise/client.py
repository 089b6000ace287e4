"""Runs a plan on this machine: attached, with this terminal, or detached, in a process of its own."""

from __future__ import annotations

from nemo_runspec.console import Console, TerminalConsole
from nemo_runspec.interrupts import Interrupts
from nemo_runspec.records.cancel_request import GRACE
from nemo_runspec.submission.request import Submission
from nemo_runspec.supervise.detach import Ready, detach
from nemo_runspec.supervise.job import SupervisedJob
from nemo_runspec.supervise.spawn import start_in_new_process


def run(submission: Submission, *, console: Console, grace: float = GRACE) -> int:
    """Runs the plan and stays with it until it has ended, or, in mode `batch`, returns once it is recorded.

    The output of an attached job is shown as it comes. It is kept in `logs/job.log` in both modes. A local job of one
    process that is attached reads this process's standard input.

    Args:
        console: takes lines of nemotron's own.
        grace: seconds a job has to end after Ctrl-C, TERM or HUP before it is killed.

    Returns: attached, the recipe's own exit code, 128 + N where signal N ended it, and 130, 143 or 129 after Ctrl-C,
        TERM or HUP; detached 0.

    Raises:
        UserError: the recipe has changed since the plan, the job cannot be made ready, or nothing can be written.
    """
    if submission.plan.mode == "batch":
        job = SupervisedJob(submission, console.say, grace=grace, attached=False)
        console.answer(_start_detached(job))  # for scripts: all that stands on standard output
        _say_next_commands(job.plan.name, console)
        return 0
    job = SupervisedJob(submission, console.say, grace=grace)
    with Interrupts() as interrupts:
        job.record_job()
        console.started(job.plan.name)
        return job.run_to_its_end(interrupts).exit_code


def submit(submission: Submission, *, console: Console) -> str:
    """Starts the job's supervisor in a new process; returns the job's name once it is recorded.

    Raises:
        UserError: as `run`.
    """
    name = start_in_new_process(_supervise, submission, say=console.say)
    _say_next_commands(name, console)
    return name


def _supervise(submission: Submission) -> str:
    return _start_detached(SupervisedJob(submission, TerminalConsole().say, attached=False))


def _start_detached(job: SupervisedJob) -> str:
    """Starts the job's supervisor; returns when the job is recorded."""

    def supervise(ready: Ready) -> None:
        with Interrupts() as interrupts:
            job.record_job()
            ready(job.plan.name, job.folder / "supervisor.log")
            job.run_to_its_end(interrupts)

    return detach(supervise)


def _say_next_commands(name: str, console: Console) -> None:
    console.say(f"{name}: runs on without this terminal")
    console.say(f"  nemotron jobs logs -f {name}    nemotron jobs cancel {name}")
