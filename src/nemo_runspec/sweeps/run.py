"""Runs the members of a sweep, some at a time, each in a thread that watches one job."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from queue import Empty, SimpleQueue
from typing import Protocol

from nemo_runspec.errors import UserError
from nemo_runspec.jobs.record import JobRecord
from nemo_runspec.planning.build import Planned
from nemo_runspec.supervise.interrupts import Interrupts
from nemo_runspec.sweeps.model import Member, Options
from nemo_runspec.sweeps.store import record_of

_TICK = 0.1


class RunMember(Protocol):
    """`supervise.member.run_member`: runs one plan to its end, in the calling thread."""

    def __call__(
        self, planned: Planned, *, argv: Sequence[str], group: str, interrupts: Interrupts, say: Callable[[str], None]
    ) -> JobRecord:
        """Returns the record of the ended job. Raises `UserError` where the job could not be made ready."""


class Watcher(Protocol):
    """Is told how the sweep goes, always in the main thread."""

    def started(self, member: Member) -> None:
        """A member is started now."""

    def said(self, member: Member, line: str) -> None:
        """A line of nemotron's own about a member."""

    def ended(self, member: Member) -> None:
        """A member has ended."""

    def tick(self) -> None:
        """Called about ten times a second."""


@dataclasses.dataclass(frozen=True)
class Crew:
    """What all batches of a sweep are run with. `argv`: the command line, which each job's record keeps redacted."""

    group: str
    argv: Sequence[str]
    interrupts: Interrupts
    watcher: Watcher
    run_member: RunMember


class Runner:
    """Runs batches of members, never more at a time than the options allow.

    Attributes:
        stopped: True once no more members are started: after Ctrl-C, or a failure where that is to end the sweep.
    """

    def __init__(self, crew: Crew, options: Options) -> None:
        self.crew = crew
        self.options = options
        self.stopped = False
        self._lines: SimpleQueue[tuple[Member, str]] = SimpleQueue()

    def run(self, batch: Sequence[tuple[Member, Planned]]) -> list[Member]:
        """Runs a batch to its end. Call it in the main thread, inside `interrupts`.

        Returns: the members as they are afterwards, in the same order; those not started have no record.
        """
        waiting, running = deque(batch), dict[Future[JobRecord], Member]()
        result = {member.index: member for member, _ in batch}
        with ThreadPoolExecutor(self.options.max_parallel, "member") as pool:
            while running or (waiting and not self._stop_asked()):
                while waiting and len(running) < self.options.max_parallel and not self._stop_asked():
                    member, planned = waiting.popleft()
                    self.crew.watcher.started(member)
                    running[pool.submit(self._run, member, planned)] = member
                for future in wait(running, _TICK, FIRST_COMPLETED).done:
                    ended = self._ended(running.pop(future), future)
                    result[ended.index] = ended
                self._pass_on()
        return list(result.values())

    def _stop_asked(self) -> bool:
        self.stopped = self.stopped or bool(self.crew.interrupts.seen)
        return self.stopped

    def _run(self, member: Member, planned: Planned) -> JobRecord:
        crew = self.crew
        return crew.run_member(
            planned,
            argv=crew.argv,
            group=crew.group,
            interrupts=crew.interrupts,
            say=lambda line: self._lines.put((member, line)),
        )

    def _ended(self, member: Member, future: Future[JobRecord]) -> Member:
        try:
            ended = dataclasses.replace(member, record=future.result())
        except (UserError, OSError) as error:
            ended = failed_early(member, error)
        self.stopped = self.stopped or (self.options.stop_on_failure and ended.state == "failed")
        self._pass_on()
        self.crew.watcher.ended(ended)
        return ended

    def _pass_on(self) -> None:
        while True:
            try:
                member, line = self._lines.get_nowait()
            except Empty:
                break
            self.crew.watcher.said(member, line)
        self.crew.watcher.tick()


def failed_early(member: Member, error: UserError | OSError) -> Member:
    """A member whose job could not be started: with its record, where it got so far, and with the reason."""
    record = record_of(member)
    code = getattr(error, "exit_code", 1)
    return dataclasses.replace(member, record=record, problem=str(error), exit_code=code)


def exit_code(members: Sequence[Member]) -> int:
    """What the whole sweep exits with: 0 where all have succeeded, else the first failed member's own exit code."""
    failed = [member for member in members if member.state != "succeeded"]
    return next((member.code for member in failed if member.code), 1) if failed else 0
