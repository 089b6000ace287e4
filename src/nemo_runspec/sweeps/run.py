"""Runs the members of a sweep, some at a time, each in a thread that watches one job."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol

from nemo_runspec.console import Say
from nemo_runspec.errors import UserError
from nemo_runspec.interrupts import Interrupts
from nemo_runspec.planning.planned import Planned
from nemo_runspec.records.cancel_request import GRACE, CancelRequest, write_request
from nemo_runspec.records.record import JobRecord
from nemo_runspec.sweeps.model import Member, Options
from nemo_runspec.sweeps.store import record_of

_TICK = 0.1


class RunMember(Protocol):
    """`supervise.sweep_run.run_member`: runs one plan to its end, in the calling thread."""

    def __call__(
        self, planned: Planned, *, argv: Sequence[str], group: str, interrupts: Interrupts, say: Say
    ) -> JobRecord:
        """Returns the record of the ended job. Raises `UserError` where the job could not be made ready."""


class SweepWatcher(Protocol):
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
class RunContext:
    """The context of all batches of a sweep. `argv`: the command line, which each job's record keeps redacted."""

    group: str
    argv: Sequence[str]
    interrupts: Interrupts
    watcher: SweepWatcher
    run_member: RunMember


class Runner:
    """Runs batches of members, never more at a time than the options allow.

    Attributes:
        stopped: True once no more members are started: after Ctrl-C, or a failure where that is to end the sweep.
    """

    def __init__(self, context: RunContext, options: Options) -> None:
        self.context = context
        self.options = options
        self.stopped = False
        self._lines: SimpleQueue[tuple[Member, str]] = SimpleQueue()
        self._end_all: str | None = None
        self._told: set[int] = set()

    def run(self, batch: Sequence[tuple[Member, Planned]]) -> list[Member]:
        """Runs a batch to its end. Call it in the main thread, inside `interrupts`.

        Returns: the members as they are afterwards, in the same order; those not started have no record.
        """
        waiting, running = deque(batch), dict[Future[JobRecord], Member]()
        result = {member.index: member for member, _ in batch}
        with ThreadPoolExecutor(self.options.max_parallel, "member") as pool:
            while running or (waiting and not self._stop_asked()):
                while len(running) < self.options.max_parallel and not self._stop_asked():
                    chosen = self.next_of(waiting)
                    if chosen is None:
                        break
                    member, planned = chosen
                    self.context.watcher.started(member)
                    running[pool.submit(self._run, member, planned)] = member
                if not running:
                    break  # none of those that wait may start any more
                for future in wait(running, _TICK, FIRST_COMPLETED).done:
                    ended = self._ended(running.pop(future), future)
                    result[ended.index] = ended
                self._tell_to_end(running.values())
                self._pass_on()
        return list(result.values())

    def next_of(self, waiting: deque[tuple[Member, Planned]]) -> tuple[Member, Planned] | None:
        """Takes the member that may start now out of those that wait; None where none may before another has ended."""
        return waiting.popleft() if waiting else None

    def _stop_asked(self) -> bool:
        self.stopped = self.stopped or bool(self.context.interrupts.seen)
        return self.stopped

    def _run(self, member: Member, planned: Planned) -> JobRecord:
        context = self.context
        return context.run_member(
            planned,
            argv=context.argv,
            group=context.group,
            interrupts=context.interrupts,
            say=lambda line: self._lines.put((member, line)),
        )

    def _ended(self, member: Member, future: Future[JobRecord]) -> Member:
        try:
            ended = dataclasses.replace(member, record=future.result())
        except (UserError, OSError) as error:
            ended = failed_early(member, error)
        if self.options.stop_on_failure and ended.state == "failed" and self._end_all is None:
            self.stopped = True
            self._end_all = f"the sweep, as run {ended.index} has failed"
        self.ended(ended)
        self._pass_on()
        self.context.watcher.ended(ended)
        return ended

    def ended(self, member: Member) -> None:
        """A member has ended, whatever became of it."""

    def _tell_to_end(self, running: Iterable[Member]) -> None:
        """Ends the others once one has failed, where that was asked for."""
        for member in running:
            if self._end_all is not None and member.index not in self._told:
                with suppress(OSError):  # it is about to be recorded; the next look finds its folder
                    write_request(Path(member.job_dir), CancelRequest(GRACE, self._end_all))
                    self._told.add(member.index)

    def _pass_on(self) -> None:
        while True:
            try:
                member, line = self._lines.get_nowait()
            except Empty:
                break
            self.context.watcher.said(member, line)
        self.context.watcher.tick()


def failed_early(member: Member, error: UserError | OSError) -> Member:
    """A member whose job could not be started: with its record, where it got so far, and with the reason."""
    record = record_of(member)
    code = error.exit_code if isinstance(error, UserError) else 1
    return dataclasses.replace(member, record=record, problem=str(error), exit_code=code)
