"""Waiting that nobody disturbs who sets the clock: locks and events of Python up to 3.9 wait by the one that is set."""

import time

MYPY = False
if MYPY:
    from typing import Callable

_FIRST, _LATER = 0.001, 0.05


def within(seconds: float, question: "Callable[[], bool]") -> bool:
    """True if it is so now, or within so many seconds: asked less and less often, 20 times a second at last."""
    until, pause = time.monotonic() + seconds, _FIRST
    while not question():
        left = until - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(pause, left))
        pause = min(2 * pause, _LATER)
    return True
