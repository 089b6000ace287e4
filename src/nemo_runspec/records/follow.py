"""A job's log, whole or its end, and on until the job is over. Bytes are passed on as they are, in large pieces."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from nemo_runspec.polling import Backoff
from nemo_runspec.records.drawn import StateFile
from nemo_runspec.records.log_view import LogView
from nemo_runspec.regular import open_regular

_PIECE = 1 << 20
_BLOCK = 1 << 16
_SHORTEST, _LONGEST = 0.002, 0.25
"""Seconds between two looks at a log that does not grow: at first, and at last."""

Write = Callable[[bytes], object]


def log_of(folder: Path) -> Path:
    """The log of the job with this folder."""
    return folder / "logs" / "job.log"


def show(log: Path, write: Write, *, tail: int | None = None) -> None:
    """What is in the log now.

    Args:
        tail: only that many lines at its end.

    Raises:
        FileNotFoundError: there is no log yet.
    """
    descriptor = _open_at(log, tail)
    try:
        _copy(descriptor, write)
    finally:
        os.close(descriptor)


def follow(log: Path, view: LogView, is_over: Callable[[], bool], *, tail: int | None = None) -> bool:
    """As `pieces`, each shown, and lines that are not whole yet. Returns: False where the job never had a log."""
    states = StateFile(log)
    try:
        for piece in pieces(log, is_over, tail=tail, idle=lambda: view.draw(states.read().shown)):
            view.write(piece)
    finally:
        view.clear()
    return log.exists()


def pieces(
    log: Path, is_over: Callable[[], bool], *, tail: int | None = None, idle: Callable[[], object] = lambda: None
) -> Iterator[bytes]:
    """What is in the log, then what is added to it, until the job is over and all of it has been read.

    Args:
        is_over: whether nothing will be added any more; asked whenever the end of the log is reached.
        tail: begin with that many lines of what there is now; with all of it where None.
        idle: called whenever there is nothing new.
    """
    descriptor = _wait_for(log, is_over, tail)
    if descriptor is None:
        return
    pauses = Backoff(_SHORTEST, _LONGEST, growth=2)
    try:
        while True:
            over = is_over()  # before the last look: what is written after it is nobody's
            if data := os.read(descriptor, _PIECE):
                pauses.reset()
                yield data
            elif over:
                return
            else:
                idle()
                pauses.wait()
    finally:
        os.close(descriptor)


def follow_to(log: Path, shown: int | None, write: Write, *, tail: int | None = None) -> int | None:
    """What is in the log beyond what was shown; how much of it has been shown then, in bytes.

    Args:
        shown: None for nothing so far: then only the last `tail` lines. None again where there is no log yet.
    """
    try:
        descriptor = _open_at(log, tail if shown is None else None)
    except FileNotFoundError:
        return shown
    try:
        if shown is not None:
            os.lseek(descriptor, shown, os.SEEK_SET)
        _copy(descriptor, write)
        return os.lseek(descriptor, 0, os.SEEK_CUR)
    finally:
        os.close(descriptor)


def _wait_for(log: Path, is_over: Callable[[], bool], tail: int | None) -> int | None:
    pauses = Backoff(_SHORTEST, _LONGEST, growth=2)
    while True:
        over = is_over()
        try:
            return _open_at(log, tail)
        except FileNotFoundError:
            if over:
                return None
        pauses.wait()


def _copy(descriptor: int, write: Write) -> int:
    """Passes on what there is; how many bytes that was."""
    total = 0
    while data := os.read(descriptor, _PIECE):
        write(data)
        total += len(data)
    return total


def _open_at(log: Path, tail: int | None) -> int:
    descriptor = open_regular(log, follow=True)
    if tail is not None:
        os.lseek(descriptor, _start_of_tail(descriptor, tail), os.SEEK_SET)
    return descriptor


def _start_of_tail(descriptor: int, lines: int) -> int:
    """Where the last lines begin. A line that is not ended yet counts as one."""
    end = os.fstat(descriptor).st_size
    if lines == 0 or end == 0:
        return end
    wanted = lines + (os.pread(descriptor, 1, end - 1) == b"\n")
    while end > 0:
        start = max(0, end - _BLOCK)
        block = os.pread(descriptor, end - start, start)
        found = block.count(b"\n")
        if found >= wanted:
            return start + _nth_from_end(block, wanted) + 1
        wanted -= found
        end = start
    return 0


def _nth_from_end(block: bytes, count: int) -> int:
    place = len(block)
    for _ in range(count):
        place = block.rfind(b"\n", 0, place)
    return place
