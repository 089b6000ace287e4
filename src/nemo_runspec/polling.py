"""Polling with back-off: the pause between two looks grows, and is short again once something has changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Backoff:
    """The pauses of a loop that looks for something, in seconds.

    Args:
        shortest: the first pause.
        longest: no pause is longer.
        growth: what each is multiplied by for the next one; 1 for equal ones.
        sleep: what waits.
    """

    def __init__(
        self, shortest: float, longest: float, growth: float = 1.5, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._shortest = shortest
        self._longest = longest
        self._growth = growth
        self._sleep = sleep
        self._next = shortest

    def wait(self, *, at_most: float | None = None) -> None:
        """Waits for the next pause, or for `at_most` seconds where that is shorter."""
        pause = self.pause()
        self._sleep(pause if at_most is None else max(0.0, min(pause, at_most)))

    def pause(self, *, longest: float | None = None) -> float:
        """The next pause, for a caller that waits by itself; the one after it is longer. `longest`: for this time."""
        limit = self._longest if longest is None else longest
        pause = min(self._next, limit)
        self._next = min(pause * self._growth, limit)
        return pause

    def reset(self) -> None:
        """Begins again with the shortest pause."""
        self._next = self._shortest


class TimeLimit:
    """A time limit. `seconds`: from now on; None for no limit."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        """Seconds that are left, not below 0; None without a limit."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        """True if the time is up."""
        return self.left == 0.0


def tried(
    act: Callable[[], T],
    pauses: Sequence[float],
    may_pass: Callable[[Exception], bool],
    sleep: Callable[[float], object] = time.sleep,
) -> T:
    """Returns what `act` does; it is tried once more after each pause while what it raises may pass."""
    for pause in pauses:
        try:
            return act()
        except Exception as error:  # whatever it is, it is raised here or by the last try
            if not may_pass(error):
                raise
        sleep(pause)
    return act()
