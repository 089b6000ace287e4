"""Lines of a log that are not whole yet: taken out of it, and kept beside it as they are now.

A job tells of them in states (`jobside/drawing.py`). `logs/job.log` has each line once, as it was in the end;
`logs/drawn` has the latest state of each rank's, for whoever follows the log.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from nemo_runspec.jobside.drawing import BAR, END, PROMPT
from nemo_runspec.regular import read_regular

_STATE = re.compile(rb"^(\r\r?)((?:\[rank\d+\] )?)([^\r\n]*)\r\n", re.MULTILINE)
_NAME = "drawn"
_MOST = 16 << 20
"""Bytes of all states together."""
_STILL = 8
"""How many states each of the other ranks tells until a line is taken to stand still."""


class DrawnLines:
    """Takes states out of what comes of a log.

    Args:
        states: as they were told before.
        cleaned: what may be shown of a line that is not whole yet.
    """

    def __init__(self, states: bytes = b"", cleaned: Callable[[bytes], bytes] = lambda line: line) -> None:
        self._cleaned = cleaned
        self._states: dict[bytes, tuple[int, bytes]] = {}
        self._told = 0
        self.take(states)

    @property
    def states(self) -> bytes:
        """The latest of each line, as they came."""
        return b"".join(state for _, state in sorted(self._states.values()))

    @property
    def shown(self) -> bytes:
        """The state of one line: that of a prompt, else that of the first rank whose line moves; '' where all are
        whole."""
        if not self._states:
            return b""
        _, latest = max(self._states.values())
        moving = [key for key, (at, _) in self._states.items() if self._told - at <= _STILL * len(self._states)]
        return latest if is_prompt(latest) else self._states[min(moving, key=lambda tag: (len(tag), tag))][1]

    def take(self, text: bytes) -> bytes:
        """The lines of a text that are whole. Every state of it has to be whole too."""
        if b"\r" not in text:
            self._ended_by(text)
            return text
        kept, at = [], 0
        for state in _STATE.finditer(text):
            kept.append(text[at : state.start()])
            self._ended_by(kept[-1])
            self._told += 1
            self._states[state[2]] = self._told, state[1] + state[2] + self._cleaned(state[3]) + END
            at = state.end()
        kept.append(text[at:])
        self._ended_by(kept[-1])
        return b"".join(kept)

    def unfinished(self) -> bytes:
        """The lines whose end never came, as they were told last; none of them is left."""
        rest = b"".join(text_of(state) + b"\n" for _, state in sorted(self._states.values()))
        self._states.clear()
        return rest

    def _ended_by(self, lines: bytes) -> None:
        """Another line of the same rank is the end of what was drawn."""
        for tag in list(self._states) if lines else ():
            if not tag or lines.startswith(tag) or b"\n" + tag in lines:
                del self._states[tag]


def is_prompt(state: bytes) -> bool:
    """True if its line was never drawn again: what is written next goes on behind it."""
    return state.startswith(PROMPT)


def text_of(state: bytes) -> bytes:
    """The line as it is."""
    return state.removesuffix(END).lstrip(BAR)


class StateFile:
    """The states beside a log."""

    def __init__(self, log: Path) -> None:
        self._path = log.with_name(_NAME)
        self._written = b""

    def write(self, lines: DrawnLines) -> None:
        """Keeps them, where they are others; the file goes with the last. A full disk costs what is seen meanwhile."""
        states = lines.states
        if states == self._written:
            return
        self._written = states
        with suppress(OSError):
            if not states:
                self._path.unlink(missing_ok=True)
                return
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:  # first what is new, then away with what was longer: a reader finds no half state
                os.ftruncate(descriptor, os.write(descriptor, states))
            finally:
                os.close(descriptor)

    def read(self) -> DrawnLines:
        """What is kept now."""
        try:
            self._written = read_regular(self._path, most=_MOST)
        except OSError:
            self._written = b""
        return DrawnLines(b"".join(found[0] for found in _STATE.finditer(self._written)))
