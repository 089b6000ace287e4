"""Ctrl-C, TERM and a closed terminal while a job runs: collected, never lost between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
WORDS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}


class Interrupted(BaseException):
    """One of the signals came before the job was started. Not an `Exception`: nothing may take it for an error."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Interrupts:
    """Takes the three signals while it is entered; those that were ignored before stay ignored.

    Attributes:
        seen: the signals that came, in order.
    """

    def __init__(self) -> None:
        self.seen: list[int] = []
        self._at_once = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in EXIT_CODES:
                before = signal.getsignal(number)
                if before is not signal.SIG_IGN:
                    self._before[number] = before
                    signal.signal(number, self._take)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Inside, a signal raises `Interrupted` at once, as does one that came before; elsewhere it is only noted."""
        self._at_once = True
        try:
            self.check()
            yield
        finally:
            self._at_once = False

    def check(self) -> None:
        """Raises `Interrupted` if a signal has come."""
        if self.seen:
            raise Interrupted(self.seen[0])

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.seen.append(number)
        if self._at_once:
            raise Interrupted(number)
