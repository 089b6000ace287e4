"""The cursor in a pod's log whose lines have times and are not counted in bytes: every line once, in order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from nemo_runspec.backends.provider import Cursors, Json
from nemo_runspec.transport.reading import table

END = re.compile(rb"^nemotron-end: node=(\d+) .*\blines=(\d+)\b")
"""A node's last line, which counts those before it."""

ENDED = "|ended"
"""Stands behind the path of a pod's log where a chunk says that the pod has ended."""


class LogLine(NamedTuple):
    """`time`: nanoseconds since 1970. `text`: with its end."""

    time: int
    text: bytes


@dataclass(frozen=True, slots=True)
class LogCursor:
    """The place up to which a log was read.

    A pod that its platform starts again writes on in the same log, after its end: that is another life.

    Args:
        time: of the last line.
        taken: how many lines of that very time were read.
        total: lines read in all.
        before: how many of them were of earlier lives.
        ended: the last line was a node's last one.
    """

    time: int = 0
    taken: int = 0
    total: int = 0
    before: int = 0
    ended: bool = False

    @classmethod
    def parse(cls, stored: Json) -> LogCursor:
        """Reads what `json` gave; from the beginning where there is nothing of the kind."""
        fields = table(stored)
        time, taken, total, before = (_count(fields.get(name)) for name in ("time", "taken", "total", "before"))
        return cls(time, taken, total, before, fields.get("ended") is True)

    @property
    def json(self) -> Json:
        """The cursor as it is kept, without what is 0."""
        return {name: value for name, value in asdict(self).items() if value}

    def after(self, lines: Sequence[LogLine]) -> list[LogLine]:
        """The lines that were not read yet."""
        same = [line for line in lines if line.time == self.time]
        return [*same[self.taken :], *(line for line in lines if line.time > self.time)]

    def moved(self, lines: Sequence[LogLine]) -> LogCursor:
        """The cursor after these lines."""
        if not lines:
            return self
        last = lines[-1].time
        same = sum(line.time == last for line in lines) + (self.taken if last == self.time else 0)
        before, ended = self.before, self.ended
        for number, line in enumerate(lines, self.total):
            before, ended = number if ended else before, END.match(line.text) is not None
        return LogCursor(last, same, self.total + len(lines), before, ended)

    def text(self, lines: Sequence[LogLine], lost: str) -> bytes:
        """The lines as bytes; after a node's last one it is said how many of those it counted never came.

        Args:
            lost: what is said then, with the fields `lines` and `node`.
        """
        parts, cursor = [], self
        for line in lines:
            parts.append(line.text)
            cursor = cursor.moved([line])
            end = END.match(line.text)
            missing = int(end[2]) - (cursor.total - 1 - cursor.before) if end else 0
            if end and missing > 0:
                parts.append(f"nemotron: {lost.format(lines=missing, node=int(end[1]))}\n".encode())
        return b"".join(parts)


def _count(value: object) -> int:
    """A number that is not negative, to its last digit: nanoseconds are more than a float holds."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def pod_cursors(cursors: Cursors, name: str) -> Cursors:
    """Cursors of the logs of pods whose names begin with a job's, without what says of a pod that it has ended."""
    return {path: each for path, each in cursors.items() if path.startswith(f"{name}-") and ENDED not in path}


def unpacked(number: int) -> tuple[int, int, int]:
    """What an integer of an earlier release holds: the time, lines of that time, and counts above them."""
    counts, low = divmod(number, 10**26)
    return low // 1_000_000, low % 1_000_000, counts
