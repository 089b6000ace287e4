"""A job's log on this machine: what has been fetched of it so far, every byte once, whoever fetches.

`logs/job.log` is appended to; `logs/fetched.json` says how long it is and how far each file of the other machine has
been read. It is written after the bytes, so that what a killed process appended without it is cut off again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nemo_runspec import paths
from nemo_runspec.backends.provider import Cursors, Handle, LogChunk, Provider
from nemo_runspec.records.drawn import StateFile
from nemo_runspec.records.follow import log_of
from nemo_runspec.records.lock import locked
from nemo_runspec.regular import open_regular, read_json

LIMIT = 16 << 20
"""Bytes fetched at a time."""


@dataclass(frozen=True)
class _Fetched:
    """How far it has come. `size`: of the log here; `cursors`: of the logs there; `whole`: no more was to come."""

    size: int = 0
    cursors: Cursors = field(default_factory=dict)
    whole: bool = False


class Mirror:
    """The log of one job.

    Args:
        folder: the job's own, on this machine.

    Attributes:
        stirred: whether the last fetch has seen that the job's state is about to change.
    """

    def __init__(self, provider: Provider, handle: Handle, folder: Path) -> None:
        self.stirred = False
        self.provider = provider
        self.handle = handle
        self.log = log_of(folder)
        self._state = self.log.with_name("fetched.json")

    @property
    def whole(self) -> bool:
        """True if all of it was here once its job was over. An earlier release has not written that down."""
        return self._read().whole

    def fetch(self, *, last: bool = False, limit: int = LIMIT) -> tuple[int, bool]:
        """Fetches what is new: how many bytes that was, and whether there is more. One round trip.

        A line that is not whole yet waits for its end, so that lines of several files never mix.

        Args:
            last: nothing more will be written: take such a line too.

        Raises:
            UserError: it cannot be fetched; what is here stays as it is. OSError: it cannot be written here.
        """
        paths.private_dir(self.log.parent)
        with locked(self.log.parent):
            before = self._read()
            found = self.provider.read_log(self.handle, before.cursors, limit)
            pieces = [piece for piece in found if not piece.silent]
            silent = {piece.path: piece.cursor for piece in found if piece.silent}
            self.stirred = bool(silent)
            taken = [cut for piece in pieces if (cut := _whole_lines(piece, last, limit)).content]
            more = any(piece.more for piece in found)
            self._append(before, taken, silent, is_all=last and not more)
        return sum(len(piece.content) for piece in taken) or (more and bool(silent)), more

    def end(self, size: int) -> bytes:
        """The last bytes of what is here."""
        try:
            with os.fdopen(open_regular(self.log, follow=True), "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - size))
                return file.read()
        except FileNotFoundError:
            return b""

    def _read(self) -> _Fetched:
        try:
            stored = read_json(self._state)
            return _Fetched(int(stored["size"]), dict(stored["offsets"]), stored.get("whole") is True)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return _Fetched()

    def _append(self, before: _Fetched, pieces: Sequence[LogChunk], others: Cursors, *, is_all: bool) -> None:
        states = StateFile(self.log)
        lines = states.read()
        if not pieces and not others and self.log.exists() and not (is_all and (lines.states or not before.whole)):
            return
        descriptor = os.open(self.log, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, before.size)
            os.lseek(descriptor, before.size, os.SEEK_SET)
            for piece in pieces:
                _write(descriptor, lines.take(piece.content))
            if is_all:  # of nodes that were lost
                _write(descriptor, lines.unfinished())
            size = os.lseek(descriptor, 0, os.SEEK_CUR)
        finally:
            os.close(descriptor)
        states.write(lines)
        cursors = {**before.cursors, **others, **{piece.path: piece.cursor for piece in pieces}}
        paths.write_private(self._state, json.dumps({"size": size, "offsets": cursors, "whole": is_all}) + "\n")


def fetch_all(provider: Provider, handle: Handle, folder: Path) -> None:
    """Fetches all that is left of the log of a job that is over. Raises as `Mirror.fetch`."""
    mirror, more = Mirror(provider, handle, folder), True
    while more:
        moved, more = mirror.fetch(last=True)
        more = more and moved > 0


def _whole_lines(piece: LogChunk, last: bool, limit: int) -> LogChunk:
    """The piece up to its last line's end. All of it where no more will come, or where a line fills a whole answer."""
    end = piece.content.rfind(b"\n") + 1
    if piece.next is not None or (last and not piece.more) or (not end and len(piece.content) >= limit):
        return piece
    return LogChunk(piece.path, piece.start, piece.content[:end], piece.more)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
