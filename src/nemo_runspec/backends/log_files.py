"""Reads new bytes of a job's log files where this machine sees its directory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from nemo_runspec.backends.provider import Cursors, LogChunk, offset_of
from nemo_runspec.regular import read_part


def new_chunks(files: Mapping[str, Path], cursors: Cursors, limit: int) -> Iterator[LogChunk]:
    """New bytes of files, by byte offset, in their order. What is beyond the limit is said to be there.

    Args:
        files: by the names that their chunks have.
        cursors: how much of each is known.
        limit: bytes in all.
    """
    for name, file in files.items():
        start = offset_of(cursors.get(name))
        content, more = read_part(file, start, limit)
        limit -= len(content)
        if content or more:
            yield LogChunk(name, start, content, more)
