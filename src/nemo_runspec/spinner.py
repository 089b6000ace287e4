"""A line at the end of a terminal that shows that something takes its time: what, and for how long already.

On the error stream, and only where that is a terminal; whatever is told meanwhile (`console.note`) stands above it.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import TracebackType

from nemo_runspec.console import ERASE, is_quiet, keep_below
from nemo_runspec.duration import span
from nemo_runspec.text import one_line, shorten, size, size_of
from nemo_runspec.visible import unfiltered

SIGNS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TICK = 0.1
_mine = threading.local()
"""`spinner`: the outermost of this thread; several jobs may be sent at once."""


def elapsed_line(text: str, seconds: float) -> str:
    """The line after so many seconds, as wide as the terminal at most."""
    sign = SIGNS[int(seconds / _TICK) % len(SIGNS)]
    took = span(int(seconds))
    room = shutil.get_terminal_size().columns - len(took) - 6
    return f"{sign} {shorten(one_line(text), max(room, 8))}  {took}"


def uploading(blocks: Iterable[bytes], what: str, whole: int | None = None) -> Iterator[bytes]:
    """The blocks, as they are taken; meanwhile the line that lives says how many bytes of them have been.

    Args:
        what: is sent.
        whole: bytes of all of them, None where that is not known.
    """
    with UploadProgress(what, whole) as upload:
        for block in blocks:
            yield block
            upload.sent(len(block))


class UploadProgress:
    """What is sent, as the line that lives tells of it; a context, after which it tells what it told before.

    Args:
        As `uploading`.
    """

    def __init__(self, what: str, whole: int | None = None) -> None:
        self._what, self._whole, self._sent = what, whole, 0
        self._spinner: Spinner | None = getattr(_mine, "spinner", None)
        self._before = self._spinner.text if self._spinner else ""

    def sent(self, more: int) -> None:
        """So many more bytes are on their way."""
        self._sent += more
        if self._spinner is not None:
            how_far = size(self._sent) if self._whole is None else size_of(self._sent, self._whole)
            self._spinner.tell(f"uploading {self._what} · {how_far}")

    def __enter__(self) -> UploadProgress:
        self.sent(0)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._spinner is not None:
            self._spinner.tell(self._before)


class Spinner:
    """Use as a context. Elsewhere than on a terminal, while it is quiet, or within another one it shows nothing.

    Args:
        text: what goes on.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._outermost = False
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def tell(self, text: str) -> None:
        """What goes on now."""
        self.text = text or self.text

    def __enter__(self) -> Spinner:
        if getattr(_mine, "spinner", None) is None:
            _mine.spinner, self._outermost = self, True
        wanted = not is_quiet() and sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        if wanted and keep_below(self._draw):
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        if self._outermost:
            _mine.spinner = None
        if self._thread is not None:
            self._thread.join()
            keep_below(None)

    def _run(self) -> None:
        while not self._ended.wait(_TICK):
            self._draw()

    def _draw(self) -> None:
        with suppress(OSError, ValueError):
            print(
                f"{ERASE}{elapsed_line(self.text, time.monotonic() - self._began)}",
                end="",
                file=unfiltered(sys.stderr),
                flush=True,
            )
