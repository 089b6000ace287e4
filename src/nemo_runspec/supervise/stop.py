"""A running job is asked to stop: by Ctrl-C and its like, or by another process. TERM, some time, KILL."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from nemo_runspec.backends.worker import Work
from nemo_runspec.console import Say
from nemo_runspec.interrupts import EXIT_CODES, WORDS, Interrupts
from nemo_runspec.records.cancel_request import read_request
from nemo_runspec.supervise.outcome import StopRequest


def why_stopped(interrupts: Interrupts, folder: Path) -> StopRequest | None:
    """Who wants the job to end, None for nobody. A written wish says more than the signal that announces it."""
    if _is_gone(folder):
        return StopRequest("the removal of its folder", EXIT_CODES[signal.SIGTERM])
    request = read_request(folder)
    if request is not None:
        return StopRequest(request.by, EXIT_CODES[signal.SIGTERM])
    if interrupts.seen:
        number = signal.Signals(interrupts.seen[0])
        return StopRequest(WORDS[number], EXIT_CODES[number])
    return None


class Stop:
    """Acts on wishes to stop. The second signal, or the end of the grace, kills.

    Args:
        folder: the job's own, where other processes leave their wish.
        grace: seconds, unless that wish says otherwise.
    """

    def __init__(
        self,
        work: Work,
        interrupts: Interrupts,
        folder: Path,
        grace: float,
        say: Say,
    ) -> None:
        self._work = work
        self._interrupts = interrupts
        self._folder = folder
        self._grace = grace
        self._say = say
        self._handled = 0
        self._deadline: float | None = None
        self._killed = False
        self._requested = False
        self._announcement_due = False

    @property
    def asked(self) -> bool:
        """True once the job was asked to stop."""
        return self._deadline is not None

    def time_left(self) -> float:
        """Seconds the job's processes still have."""
        if self._killed:
            return 0.0
        return 1.0 if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def tick(self) -> None:
        """Acts on what has come and on time that has passed. Called about ten times a second."""
        new, self._handled = self._interrupts.seen[self._handled :], len(self._interrupts.seen)
        if not self._requested and _is_gone(self._folder):
            # Nobody could find the job any more, or end it.
            self._requested = True
            self._ask("its folder was removed", self._grace)
        request = None if self._requested else read_request(self._folder)
        if request is not None:
            self._requested = True
            self._announcement_due = request.announced
            self._ask(request.by, request.grace)
        for number in new:
            if self._announcement_due and number == signal.SIGTERM:  # it may come long after the wish is read
                self._announcement_due = False
            elif self._deadline is None:
                self._ask(WORDS[signal.Signals(number)], self._grace)
            else:
                self._kill("it is killed now")
        # Also where the job script itself has ended: what it left behind may go on.
        if self._deadline is not None and time.monotonic() > self._deadline:
            self._kill(f"it did not stop within {self._grace:g} s and is killed")

    def _ask(self, who: str, grace: float) -> None:
        """The job is told once: many a program dies of a second TERM while it saves its work."""
        told = self._deadline is not None
        self._grace = grace
        self._deadline = time.monotonic() + grace
        self._say(f"{who}: the job was asked to stop and has {grace:g} s; once more kills it")
        if not told:
            self._work.terminate()

    def _kill(self, why: str) -> None:
        if not self._killed:
            self._killed = True
            self._say(f"the job: {why}")
        self._work.kill()


def _is_gone(folder: Path) -> bool:
    """True only where the system says so: a file system that fails for a moment must not end a job."""
    try:
        folder.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False
