"""Logs on the claim, where this machine sees it: in the cluster, or because the same storage is mounted here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nemo_runspec.backends.provider import Cursors, Handle, LogChunk, offset_of

_END = 64 << 10
"""Bytes of a log's end that are looked at."""


def seen_from_here(handle: Handle) -> bool:
    """Whether this machine sees where jobs' directories are, or would be, and this user may read what is there."""
    here = str(handle.get("here") or "")
    return bool(here) and mounted(Path(here).parent.parent) and not closed(handle)


def mounted(run_dir: Path) -> bool:
    """Whether a directory for jobs is there, or the place for it: pods make it with their first job."""
    return any(os.path.isdir(place) for place in (run_dir, run_dir.parent))  # noqa: PTH112  (Path's raises, if closed)


def closed(handle: Handle) -> str:
    """The first path on the way to a job's logs that is there and not for this user's eyes; '' where all may be read.

    Pods mostly run as root and make a job's directory for themselves alone.
    """
    if not handle.get("here"):
        return ""
    folder = Path(str(handle["here"]))
    for place, mode in _way_to(folder / "logs"):
        if not os.path.exists(place):  # noqa: PTH110  (Path's raises where a directory above is closed)
            return ""
        if not _may(place, mode):
            return str(place)
    return next((str(file) for file in _found(folder / "logs", "node-*.log") if not _may(file, os.R_OK)), "")


def _way_to(logs: Path) -> Iterator[tuple[Path, int]]:
    """The directories on the way, the outermost first, and what one must be allowed to do there."""
    yield from ((place, os.X_OK) for place in (logs.parents[2], logs.parents[1]))
    yield from ((place, os.R_OK | os.X_OK) for place in (logs.parent, logs))


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def tail(handle: Handle, cursors: Cursors, limit: int) -> list[LogChunk]:
    """New bytes of the nodes' logs, by byte offset; markers that a node has ended come as silent pieces."""
    found = [LogChunk(name, 0, b"1", silent=True) for name in _markers(handle) if name not in cursors]
    for file in _logs(handle):
        name = _name(handle, file)
        start = offset_of(cursors.get(name))
        content, more = _read(file, start, limit)
        limit -= len(content)
        found += [LogChunk(name, start, content, more)] if content else []
    return found


def last_lines(handle: Handle) -> bytes:
    """The last bytes of every node's log, one after the other."""
    ends = []
    for file in _logs(handle):
        with suppress(OSError):
            ends.append(_read(file, max(0, file.stat().st_size - _END), _END)[0])
    return b"".join(ends)


def _logs(handle: Handle) -> list[Path]:
    """The nodes' logs; and why a job's files never came to its directory, which boot.sh writes beside it."""
    folder = Path(str(handle["here"]))
    return [*_found(folder.parent, f"{folder.name}.failed.*"), *_found(folder / "logs", "node-*.log")]


def _found(folder: Path, pattern: str) -> list[Path]:
    """Files by their names; none of a directory that is gone or cannot be read now."""
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []


def _markers(handle: Handle) -> Iterator[str]:
    for file in _found(Path(str(handle["here"]), "status"), "node-*"):
        if file.suffix != ".tmp":
            yield _name(handle, file)


def _name(handle: Handle, file: Path) -> str:
    folder = Path(str(handle["here"]))
    return str(file.relative_to(folder if folder in file.parents else folder.parent))


def _read(file: Path, start: int, limit: int) -> tuple[bytes, bool]:
    """Bytes from there on, and whether there are more already. A file that is gone has none."""
    try:
        with file.open("rb") as stream:
            stream.seek(start)
            content = stream.read(max(0, limit))
            return content, start + len(content) < os.fstat(stream.fileno()).st_size
    except OSError:
        return b"", False
