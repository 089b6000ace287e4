"""Signals that come at a moment at which an exception would do harm."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def signals_held() -> Iterator[None]:
    """What Python does on Ctrl-C, TERM and a closed terminal is done at the end of this, not inside.

    For a step that an exception must not cut in two. Python has signals in its main thread only.
    """
    before: dict[int, Any] = {}
    came: list[tuple[int, FrameType | None]] = []
    main = threading.current_thread() is threading.main_thread()
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if main else ():
            if callable(handler := signal.getsignal(number)):
                before[number] = handler
                signal.signal(number, lambda *signalled: came.append(signalled))
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for came_in, frame in came:
            before[came_in](came_in, frame)
