"""Lines that are seen before they are whole: bars, which carriage returns draw again and again, and prompts.

A line that is not whole yet is told of in *states*, lines of their own that whoever reads the log takes out again
(`records/drawn.py`): `\\r`, the tag, the line as it is now, `\\r\\n`. No line of a rank begins so. A bar's comes soon,
then less and less often: a line that is drawn for hours must not fill the disks that the log goes through. Where
somebody may sit at a terminal (`NEMOTRON_REDRAW`, seconds between two), so does that of a prompt, behind `\\r\\r`.
"""

import os
import time

MYPY = False
if MYPY:
    from typing import Optional, Sequence, Union

BAR, PROMPT, END = b"\r", b"\r\r", b"\r\n"
UP = b"\x1b[A"
SHOWN = 2048
"""Bytes of a state; with its tag it is a write that does not mix with others."""

_LEAST, _MOST, _SHARE = 1.0, 20.0, 20.0
"""Seconds between two states of a line where nobody says how often one is wanted: a share of how long it is drawn."""
_SOON = 0.05
"""Seconds after which a prompt is one: a line that is written in pieces is whole by then."""
_BETWEEN = 0.1
"""Seconds before another line's first state."""
_DEEPEST = 4
"""Bars below each other that are seen as such."""


class Pace:
    """When the state of a line that is not whole yet is told. `is_bar`: whether it was drawn again already."""

    def __init__(self, source: int) -> None:
        self.is_bar = False
        self._source = source
        self._every = _seconds(os.environ.get("NEMOTRON_REDRAW", ""))
        self._told = 0.0
        self._due: "Optional[float]" = None
        self._first: "Optional[float]" = None

    def begin(self) -> None:
        """Another line begins."""
        self.is_bar, self._due, self._first = False, None, None

    def changed(self) -> None:
        """There is more of the line."""
        if self._due is None and (self.is_bar or self._every):
            now = time.monotonic()
            self._due = max(now if self.is_bar else now + _SOON, self._told + self._pause(now))

    def shown(self) -> None:
        """Its state was told just now."""
        self._told, self._due = time.monotonic(), None
        self._first = self._first or self._told

    def is_time_to_read(self) -> bool:
        """True once there is something to be read; False where the state is due before."""
        if self._due is None:
            return True
        left = self._due - time.monotonic()
        if left <= 0:
            return False
        import select

        waiting = select.poll()
        waiting.register(self._source, select.POLLIN)
        return bool(waiting.poll(left * 1000))

    def _pause(self, now: float) -> float:
        if self._first is None:
            return _BETWEEN
        return self._every or min(_MOST, max(_LEAST, (now - self._first) / _SHARE))


def _seconds(text: str) -> float:
    try:
        return max(0.0, float(text))
    except ValueError:
        return 0.0


def cleared(block: bytes) -> bytes:
    """Whole lines with `\n` as their only end, each as it was drawn last."""
    if b"\r" not in block:
        return block
    block = block.replace(b"\r\n", b"\n")
    if b"\r" not in block:
        return block
    return b"".join(last_of(line.split(b"\r")) + b"\n" for line in block[:-1].split(b"\n"))


def last_of(states: "Sequence[Union[bytes, bytearray]]") -> bytes:
    """The last state of a line in which there is something; bars begin with nothing, and may end with blanks."""
    return bytes(next((state for state in reversed(states) if state.strip()), states[0]))


def in_one_line(text: bytes) -> bytes:
    """What is drawn below another bar, up from which the cursor goes again (nested ones of tqdm), as the line's next.

    A line's end behind as many lines up is the beginning of the same line.
    """
    for depth in range(_DEEPEST, 0, -1) if UP in text else ():
        text = text.replace(UP * depth + b"\n" * depth, b"\r")
    return text
