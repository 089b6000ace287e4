"""The command of a Ray job: it runs on node 0 in a process group of its own, and its output is the rank's."""

import os
import time

from nemo_runspec.jobside import processes, signals
from nemo_runspec.jobside.barriers import Failure
from nemo_runspec.jobside.delivery import TICK, Delivery
from nemo_runspec.jobside.shell import OUTPUT

MYPY = False
if MYPY:
    from typing import Dict, Optional


class Driver:
    """The command, which starts at once. Raises `Failure` where it cannot.

    Args:
        script: the job script.
        environment: its variables.
    """

    def __init__(self, script: str, environment: "Dict[str, str]") -> None:
        try:
            self._child = processes.start(["bash", script, "--command"], environment, {0: 0, OUTPUT: OUTPUT})
        except OSError as error:
            raise Failure("bash cannot be started: %s" % error.strerror) from None
        os.close(OUTPUT)
        self._delivery = Delivery(self._child)
        self._kill_at: "Optional[float]" = None

    @property
    def was_ended(self) -> bool:
        """True if it was ended here."""
        return self._kill_at is not None

    @property
    def exit_code(self) -> int:
        """As of `processes.Child`."""
        return self._child.exit_code

    @property
    def signal(self) -> "Optional[int]":
        """As of `processes.Child`."""
        return self._child.signal

    def has_ended(self) -> bool:
        """True if it has ended."""
        return self._child.has_ended()

    def tell(self, number: int) -> None:
        """Tells it a signal."""
        self._delivery.tell(number)

    def go_on(self) -> None:
        """Does what is due: signals that were held, and the end of a command that does not end by itself."""
        self._delivery.go_on()
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._child.send(signals.KILL)

    def pause(self, most: float) -> float:
        """Seconds until `go_on` is due, at most so many."""
        if self._delivery.waits:
            return TICK
        return most if self._kill_at is None else max(0.0, min(most, self._kill_at - time.monotonic()))

    def end_within(self, seconds: float) -> None:
        """TERM now, KILL some time after it."""
        self._kill_at = time.monotonic() + seconds
        self._child.send(signals.TERM)

    def end_now(self) -> None:
        """KILL, to all of it."""
        processes.end_tree(self._child.pid)
