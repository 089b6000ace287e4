"""Shows a job's log: whole lines, and below them, on a terminal, the one that is not whole yet."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable

from nemo_runspec.console import ERASE, note, stdout_writer
from nemo_runspec.records.drawn import is_prompt, text_of
from nemo_runspec.text import fitting

_FIRST, _GROWTH, _LONGEST = 2.0, 2.0, 60.0
"""Seconds without a line after which a bar's state is told where nothing can be drawn, as in a CI; then the next."""
_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|.)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
"""Escape sequences (ECMA-48) and other characters that move the cursor."""


class LogView:
    """This process's standard output, as somebody sees a log there.

    Args:
        columns: of the terminal now; None where there is none, and a line cannot be drawn again: what it is like is
            told now and then.
        tell: takes a line for a person.
    """

    def __init__(
        self,
        write: Callable[[bytes], object],
        columns: Callable[[], int] | None = None,
        tell: Callable[[str], object] = lambda text: None,
    ) -> None:
        self._write = write
        self._columns = columns
        self._say = tell
        self._drawn = b""
        self._is_long = False
        self._said, self._pause = time.monotonic(), _FIRST

    def write(self, lines: bytes) -> None:
        """Shows whole lines."""
        first, stands = self._beginning(lines)
        self._write(first + lines[stands:])
        self._drawn = b""
        self._said, self._pause = time.monotonic(), _FIRST

    def draw(self, state: bytes) -> None:
        """Shows a line as it is now, below all others; '' takes away what was shown."""
        if state == self._drawn:
            return
        if self._columns is None:
            self._tell(state)
            return
        text = text_of(state)
        first, stands = self._beginning(text if is_prompt(state) else b"")
        whole = plain_text(text).expandtabs()
        drawn = fitting(whole, self._columns() - 1)
        self._is_long = is_prompt(state) and drawn != whole
        self._write(first + (plain_text(text[stands:]) if is_prompt(state) else drawn).encode())
        self._drawn = state

    def clear(self) -> None:
        """Takes away what is drawn: something else is to be written."""
        self.draw(b"")

    def _beginning(self, text: bytes) -> tuple[bytes, int]:
        """What a text begins with, so that what is drawn goes; and how much of it stands there already, by a prompt."""
        drawn = text_of(self._drawn)
        if not drawn or self._columns is None:
            return b"", 0
        if is_prompt(self._drawn) and text.startswith(drawn):
            return b"", len(drawn)
        return b"\n" if self._is_long else ERASE.encode(), 0

    def _tell(self, state: bytes) -> None:
        """Says what a bar is like, where nothing else was seen for long."""
        if state and not is_prompt(state) and time.monotonic() - self._said >= self._pause:
            self._say(plain_text(text_of(state)))
            self._drawn = state
            self._said, self._pause = time.monotonic(), min(self._pause * _GROWTH, _LONGEST)


def make_view() -> LogView:
    """A view on standard output."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return LogView(stdout_writer(), _width if is_terminal else None, note)


def plain_text(text: bytes) -> str:
    """A text without what moves the cursor or changes colours."""
    return _SEQUENCE.sub("", text.decode("utf-8", "replace"))


def _width() -> int:
    return shutil.get_terminal_size().columns
