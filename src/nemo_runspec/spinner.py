"""A line at the end of a terminal that shows that something takes its time: what, and for how long already.

On the error stream, and only where that is a terminal; whatever is told meanwhile (`console.note`) stands above it.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from contextlib import suppress
from types import TracebackType

from nemo_runspec.console import ERASE, is_quiet, keep_below
from nemo_runspec.duration import span
from nemo_runspec.text import one_line, shorten
from nemo_runspec.visible import unfiltered

SIGNS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TICK = 0.1


def elapsed_line(text: str, seconds: float) -> str:
    """The line after so many seconds, as wide as the terminal at most."""
    sign = SIGNS[int(seconds / _TICK) % len(SIGNS)]
    took = span(int(seconds))
    room = shutil.get_terminal_size().columns - len(took) - 6
    return f"{sign} {shorten(one_line(text), max(room, 8))}  {took}"


class Spinner:
    """Use as a context. Elsewhere than on a terminal, while it is quiet, or within another one it shows nothing.

    Args:
        text: what goes on.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def tell(self, text: str) -> None:
        """What goes on now."""
        self._text = text or self._text

    def __enter__(self) -> Spinner:
        wanted = not is_quiet() and sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        if wanted and keep_below(self._draw):
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            keep_below(None)

    def _run(self) -> None:
        while not self._ended.wait(_TICK):
            self._draw()

    def _draw(self) -> None:
        with suppress(OSError, ValueError):
            print(
                f"{ERASE}{elapsed_line(self._text, time.monotonic() - self._began)}",
                end="",
                file=unfiltered(sys.stderr),
                flush=True,
            )
