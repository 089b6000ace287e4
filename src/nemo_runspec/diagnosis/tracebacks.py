"""Python's tracebacks, read back out of a log, and which of their lines are the user's own code."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

_HEADER = re.compile(r"Traceback \(most recent call last\):\s*$")
_FRAME = re.compile(r'^ +File "([^"]+)", line (\d+)(?:, in (.+))?')
_SPIED = re.compile(r"^    (\S.*) \(([^()\s]+):(\d+)\)$")
_EXCEPTION = re.compile(r"^[A-Za-z_](?:[\w.]|<locals>)*(?:: .*|:?\s*)$")
_SYNTAX = re.compile(r"^(?:SyntaxError|IndentationError|TabError): ")
_CHAINED = re.compile(r"^(?:During handling of the above|The above exception was the direct| *\+-[+-]*-+ \d+ -+$)")
_GROUP = re.compile(r"^ *\+ (?=Exception Group Traceback)|^ *\| ")
"""What stands before the lines of an `ExceptionGroup` and of the exceptions in it."""
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib(?:64)?/python\d|^<")
_OWN_ROOT = re.compile(r"^.*/(?:nemo_run|jobs/[^/]+)/(?:code|bundle)/")
_PACKAGE = re.compile(r"^.*/(?:site|dist)-packages/|^.*/lib(?:64)?/python[\d.]+/")
_MESSAGE_LINES = 8
_DEEPEST, _SYNTAX_LINES = 1000, 6
"""Lines between a header and its exception, and between a file that is no Python and its SyntaxError."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of code. `function`: '' for a file that could not be read as Python."""

    file: str
    line: int
    function: str = ""

    @property
    def own(self) -> bool:
        """True for the user's own code: neither Python's nor an installed package's."""
        # py-spy names files from where they were imported
        return not _LIBRARY.search(self.file) and self.file.removesuffix(".py") not in sys.stdlib_module_names

    @property
    def place(self) -> str:
        """`file:line`, from the root of the job's code or of the installed packages."""
        return f"{(_OWN_ROOT if self.own else _PACKAGE).sub('', self.file)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Traceback:
    """One traceback.

    Args:
        frames: outermost first.
        message: the exception's lines, the first with its name.
        start, end: places of its first line, and of the exception's first.
        goes_on: True where it belongs to the exception of the one before it.
        ignored: True where Python itself said that it goes on.
    """

    frames: tuple[Frame, ...]
    message: tuple[str, ...]
    start: int
    end: int
    goes_on: bool = False
    ignored: bool = False

    @property
    def name(self) -> str:
        """The exception's name, without its module."""
        return self.message[0].partition(":")[0].strip().rpartition(".")[2]

    @property
    def inner(self) -> Frame | None:
        """Where it was raised, import machinery left out."""
        return next((frame for frame in reversed(self.frames) if not frame.file.startswith("<frozen")), None)

    @property
    def own(self) -> Frame | None:
        """The innermost line of the user's own code."""
        return next((frame for frame in reversed(self.frames) if frame.own), None)


def read_tracebacks(lines: Sequence[str]) -> list[Traceback]:
    """All whole tracebacks, in their order. One that is cut off has no exception and is none."""
    found: list[Traceback] = []
    if any("Exception Group Traceback" in line for line in lines):
        lines = [_GROUP.sub("", line) for line in lines]
    for start, line in enumerate(lines):
        if found and start <= found[-1].end:
            continue
        traceback = _read(lines, start) if _begins(line) else None
        if traceback is not None:
            after = found[-1].end + 1 if found else 0
            found.append(_joined(traceback, lines[after : traceback.start + 1], bool(found)))
    return found


def frames_of(lines: Sequence[str]) -> list[Frame]:
    """The lines of code that are named there, in their order: as Python names them, or py-spy."""
    return [frame for frame in map(_frame, lines) if frame is not None]


def _frame(line: str) -> Frame | None:
    if match := _FRAME.match(line):
        return Frame(match[1], int(match[2]), match[3] or "")
    match = _SPIED.match(line)
    return Frame(match[2], int(match[3]), match[1]) if match else None


def _begins(line: str) -> bool:
    if _HEADER.search(line):
        return True
    frame = _FRAME.match(line)  # a file that is no Python at all has no header before it
    return frame is not None and not frame[3]


def _read(lines: Sequence[str], start: int) -> Traceback | None:
    headed = _HEADER.search(lines[start])
    for end in range(start + 1, min(len(lines), start + (_DEEPEST if headed else _SYNTAX_LINES))):
        if lines[end][:1] in (" ", ""):
            continue
        if not (_EXCEPTION if headed else _SYNTAX).match(lines[end]):
            return None
        ignored = start > 0 and lines[start - 1].startswith("Exception ignored")
        frames = tuple(frames_of(lines[start:end]))
        return Traceback(frames, tuple(_message(lines, end)), start, end, ignored=ignored)
    return None


def _message(lines: Sequence[str], end: int) -> list[str]:
    """The exception's line, and what follows it without an empty line."""
    more = lines[end + 1 : end + _MESSAGE_LINES]
    last = next((n for n, line in enumerate(more) if not line.strip() or _HEADER.search(line)), len(more))
    return [lines[end], *more[:last]]


def _joined(traceback: Traceback, between: Sequence[str], follows: bool) -> Traceback:
    """`between`: from the end of the one before up to its own header."""
    chained = any(_CHAINED.match(line) or line.startswith("Original Traceback") for line in between)
    if not (follows and chained):
        return traceback
    return Traceback(traceback.frames, traceback.message, traceback.start, traceback.end, True, traceback.ignored)
