"""Runs a plan on another machine: attached, with this terminal, or detached, until its id there is known."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from nemo_runspec.console import Console
from nemo_runspec.errors import UserError, first_line
from nemo_runspec.interrupts import EXIT_CODES
from nemo_runspec.records.log_view import make_view
from nemo_runspec.records.record import JobRecord, is_over
from nemo_runspec.remote.awaited_end import await_ends
from nemo_runspec.remote.cancel import end_makers, end_now, stop_all
from nemo_runspec.remote.display import make_display, place_of
from nemo_runspec.remote.follow import Follower
from nemo_runspec.remote.input_jobs import only_for
from nemo_runspec.remote.job import RemoteJob
from nemo_runspec.remote.prompt import Choice, ask
from nemo_runspec.remote.wait import exit_code_of
from nemo_runspec.submission.request import Submission

INTERRUPTED = 130


def run(submission: Submission, *, console: Console) -> int:
    """Submits the plan and stays with it until it has ended, or, in mode `batch`, returns once its id is known.

    Returns: attached, the job's own exit code, 130 where the terminal was given back while it goes on; detached 0.

    Raises:
        UserError: it cannot be submitted; its record says why.
    """
    job = RemoteJob(submission, console.say)
    job.record_job()
    try:
        job.submit()
    except KeyboardInterrupt:
        return _interrupted(job)
    if submission.plan.mode == "batch":
        console.answer(job.plan.name)  # for scripts: all that stands on standard output
        _left_alone(job)
        return 0
    console.started(job.plan.name)
    return attach(job)


def submit(submission: Submission, *, console: Console) -> str:
    """Submits the plan; the job's name once its id is known.

    Raises:
        UserError: as `submit_detached`.
    """
    return submit_detached(submission, console=console).name


def submit_detached(submission: Submission, *, console: Console) -> JobRecord:
    """Submits a job that nobody stays with; the record with its id there.

    Raises:
        UserError: it cannot be submitted; its record says why.
        KeyboardInterrupt: it was found out whether it was submitted, and ended if so.
    """
    job = RemoteJob(submission, console.say)
    job.record_job()
    try:
        job.submit()
    except KeyboardInterrupt:
        _interrupted(job)
        raise
    _left_alone(job)
    return job.record


def _left_alone(job: RemoteJob) -> None:
    """Leaves the job alone, and tells how to ask for it."""
    await_ends([job.record])
    job.say(f"{job.plan.name}: submitted to {place_of(job.record)} as {job.record.id}")
    job.say(f"  nemotron jobs logs -f {job.plan.name}    nemotron jobs cancel {job.plan.name}")


def stage(submission: Submission, *, console: Console) -> int:
    """Sends the job's files and submits nothing; says how to go on by hand."""
    say = console.say
    job = RemoteJob(submission, say)
    job.record_job()
    prepared = job.stage()
    console.answer(job.plan.name)
    say(f"{job.plan.name}: its files are on {place_of(job.record)}; nothing was submitted")
    for line in prepared.by_hand:
        say(f"  {line}")
    return 0


def attach(job: RemoteJob) -> int:
    """Stays with a submitted job; Ctrl-C asks what is to become of it. TERM and HUP end this process alone.

    Raises:
        UserError: the platform refuses to be asked any more; the job goes on.
    """
    with _ended_from_outside():
        return _Attached(job).run()


class _Ended(KeyboardInterrupt):
    """TERM or HUP: this process is to end, and nobody can be asked."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def _ended_from_outside() -> Iterator[None]:
    """Makes TERM and HUP an `_Ended`; where one is ignored, as under nohup, it stays so."""

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        raise _Ended(number)

    wanted = [signal.SIGTERM, signal.SIGHUP] if threading.current_thread() is threading.main_thread() else []
    before = {number: signal.getsignal(number) for number in wanted}
    for number in (number for number in wanted if before[number] is not signal.SIG_IGN):
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Attached:
    """A terminal and the job it shows."""

    def __init__(self, job: RemoteJob) -> None:
        self.job = job
        self.display = make_display()
        self.follower = Follower(job.store, job.record, self.display, make_view())
        self.asked_to_stop = False

    def run(self) -> int:
        """The exit code: the job's; 130, 143 or 129 where this process ended before it."""
        while True:
            try:
                record = self.follower.run()
                self.display.ended(record)
                return exit_code_of(record)
            except _Ended as ended:
                return self._detach(EXIT_CODES[signal.Signals(ended.number)])
            except KeyboardInterrupt:
                answer = self._asked()
            except UserError as error:
                raise self._with_job(error) from None
            if answer is Choice.DETACH:
                return self._detach(INTERRUPTED)
            if answer is Choice.CANCEL:
                self._cancel()

    def _asked(self) -> Choice:
        try:
            self.display.clear()
            return ask(self.job.plan.name)
        except KeyboardInterrupt:  # before the question stood there
            return Choice.DETACH

    def _with_job(self, error: UserError) -> UserError:
        """What keeps it from being followed, with how to go on."""
        name = self.job.plan.name
        self.display.clear()
        first = f"{error.remedy}; " if error.remedy else ""
        remedy = f"{first}{name} goes on: nemotron jobs logs -f {name}"
        return UserError(error.what, where=error.where, remedy=remedy)

    def _detach(self, code: int) -> int:
        name = self.job.plan.name
        self.job.say(f"{name}: the job goes on without this terminal")
        self.job.say(f"  nemotron jobs logs -f {name}    nemotron jobs cancel {name}")
        return code

    def _cancel(self) -> None:
        """TERM first; a second wish does not wait for the command to save its work."""
        hard = self.asked_to_stop
        name = self.job.plan.name
        try:
            ending = [self.follower.record, *only_for(self.job.store, [self.follower.record])]
            stop_all(ending, "Ctrl-C", hard=hard, store=self.job.store)
        except UserError as error:
            self.job.say(f"{name}: not cancelled, it goes on; Ctrl-C asks again: {first_line(error)}")
            return
        self.asked_to_stop = True
        self.job.say(f"{name}: {'ended' if hard else 'asked to stop; cancel once more to end it at once'}")


def _interrupted(job: RemoteJob) -> int:
    """Ctrl-C while it was being submitted: it is found out whether it was, and ended if so."""
    job.say(f"{job.plan.name}: interrupted; looking whether it was submitted")
    try:
        record = end_now(job.store, job.record, "Ctrl-C")
        end_makers(job.store, job.submission.needs, [record.name], "Ctrl-C", job.say)
    except (UserError, KeyboardInterrupt) as error:
        why = f" ({first_line(error)})" if isinstance(error, UserError) else ""
        job.say(f"{job.plan.name}: not known{why}; nemotron jobs status {job.plan.name} finds out")
        return INTERRUPTED
    state = "cancelled" if is_over(record.state) else record.state
    job.say(f"{job.plan.name}: {record.cause if record.sent else state}")
    return INTERRUPTED
