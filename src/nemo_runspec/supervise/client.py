"""Runs a plan on this machine: attached, with this terminal, or detached, in a process of its own."""

from __future__ import annotations

from nemo_runspec.submission.request import Submission
from nemo_runspec.supervise.console import Console, StderrConsole
from nemo_runspec.supervise.detach import Ready, detach
from nemo_runspec.supervise.interrupts import Interrupts
from nemo_runspec.supervise.job import SupervisedJob
from nemo_runspec.supervise.stop import GRACE


def run(submission: Submission, *, console: Console | None = None, grace: float = GRACE) -> int:
    """Runs the plan and stays with it until it has ended, or, in mode `batch`, returns once it is recorded.

    The output of an attached job is shown as it comes. It is kept in `logs/job.log` in both modes.

    Args:
        grace: seconds a job has to end after Ctrl-C, TERM or HUP before it is killed.

    Returns: attached, the recipe's own exit code, 128 + N where signal N ended it, and 130, 143 or 129 after Ctrl-C,
        TERM or HUP; detached 0.

    Raises:
        UserError: the recipe has changed since the plan, the job cannot be made ready, or nothing can be written.
    """
    say = (console or StderrConsole()).say
    if submission.plan.mode == "batch":
        _start_detached(SupervisedJob(submission, say, grace=grace, show=False))
        return 0
    job = SupervisedJob(submission, say, grace=grace)
    with Interrupts() as interrupts:
        job.record_job()
        return job.run_to_its_end(interrupts).exit_code


def _start_detached(job: SupervisedJob) -> None:
    """Starts the job's supervisor; returns when the job is recorded."""

    def supervise(ready: Ready) -> None:
        with Interrupts() as interrupts:
            job.record_job()
            ready(job.plan.name, job.folder / "supervisor.log")
            job.run_to_its_end(interrupts)

    name = detach(supervise)
    print(name)  # for scripts: all that stands on standard output
    job.say(f"{name}: runs on without this terminal")
    job.say(f"  nemotron jobs logs -f {name}    nemotron jobs cancel {name}")
