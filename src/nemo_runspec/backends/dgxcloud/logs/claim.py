"""Logs on the claim, where this machine sees it: in the cluster, or because the same storage is mounted here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from nemo_runspec.remote.provider import Handle, Piece

_END = 64 << 10
"""Bytes of a log's end that are looked at."""


def seen_from_here(handle: Handle) -> bool:
    """Whether this machine sees where jobs' directories are, or would be if there were any."""
    return bool(handle.get("here")) and mounted(Path(str(handle["here"])).parent.parent)


def mounted(run_dir: Path) -> bool:
    """Whether a directory for jobs is there, or the place for it: pods make it with their first job."""
    return run_dir.is_dir() or run_dir.parent.is_dir()


def tail(handle: Handle, offsets: Mapping[str, int], limit: int) -> list[Piece]:
    """New bytes of the nodes' logs, by byte offset; markers that a node has ended come as silent pieces."""
    found = [Piece(name, 0, b"1", silent=True) for name in _markers(handle) if name not in offsets]
    for file in _logs(handle):
        name = _name(handle, file)
        start = offsets.get(name, 0)
        content, more = _read(file, start, limit)
        limit -= len(content)
        found += [Piece(name, start, content, more)] if content else []
    return found


def last_words(handle: Handle) -> bytes:
    """The last bytes of every node's log, one after the other."""
    ends = []
    for file in _logs(handle):
        size = file.stat().st_size
        ends.append(_read(file, max(0, size - _END), _END)[0])
    return b"".join(ends)


def _logs(handle: Handle) -> list[Path]:
    """The nodes' logs; and why a job's files never came to its directory, which boot.sh writes beside it."""
    folder = Path(str(handle["here"]))
    return [*sorted(folder.parent.glob(f"{folder.name}.failed.*")), *sorted((folder / "logs").glob("node-*.log"))]


def _markers(handle: Handle) -> Iterator[str]:
    for file in sorted(Path(str(handle["here"]), "status").glob("node-*")):
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
