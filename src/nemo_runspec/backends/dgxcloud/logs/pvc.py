"""Logs on the claim, where this machine sees it: in the cluster, or because the same storage is mounted here."""

from __future__ import annotations

import os
from pathlib import Path

from nemo_runspec.backends import log_files
from nemo_runspec.backends.cloud.handle import PodHandle
from nemo_runspec.backends.provider import Cursors, Handle, LogChunk
from nemo_runspec.regular import read_part

_END = 64 << 10
"""Bytes of a log's end that are looked at."""

_OPEN = os.R_OK | os.X_OK


def seen_from_here(handle: Handle) -> bool:
    """True if this machine sees where jobs' directories are, or would be, and this user may read what is there."""
    here = PodHandle(handle).here
    return here is not None and mounted(here.parent.parent) and not closed(handle)


def mounted(run_dir: Path) -> bool:
    """True if a directory for jobs is there, or the place for it: pods make it with their first job."""
    return any(os.path.isdir(place) for place in (run_dir, run_dir.parent))  # noqa: PTH112  (Path's raises, if closed)


def closed(handle: Handle) -> str:
    """The first path on the way to a job's logs that is there and not for this user's eyes; '' where all may be read.

    Pods mostly run as root and make a job's directory for themselves alone.
    """
    folder = PodHandle(handle).here
    if folder is None:
        return ""
    logs, jobs = folder / "logs", folder.parent
    for place, mode in ((jobs.parent, os.X_OK), (jobs, os.X_OK), (folder, _OPEN), (logs, _OPEN)):
        if not os.path.exists(place):  # noqa: PTH110  (Path's raises where a directory above is closed)
            return ""
        if not _may(place, mode):
            return str(place)
    return next((str(file) for file in _files(logs, "node-*.log") if not _may(file, os.R_OK)), "")


def new_chunks(handle: Handle, cursors: Cursors, limit: int) -> list[LogChunk]:
    """New bytes of the nodes' logs, by byte offset; markers that a node has ended come as silent chunks."""
    folder = _folder(handle)
    markers = (_name(folder, file) for file in _files(folder / "status", "node-*") if file.suffix != ".tmp")
    ends = [LogChunk(name, 0, b"1", silent=True) for name in markers if name not in cursors]
    return [*ends, *log_files.new_chunks({_name(folder, file): file for file in _logs(folder)}, cursors, limit)]


def last_lines(handle: Handle) -> bytes:
    """The last bytes of every node's log, one after the other."""
    return b"".join(read_part(file, -_END, _END)[0] for file in _logs(_folder(handle)))


def why_not_begun(handle: Handle) -> str:
    """Why a job's files never came to its directory, as its first node's `boot.sh` says; '' where it does not."""
    folder = _folder(handle)
    said, _ = read_part(folder.with_name(f"{folder.name}.failed.{PodHandle(handle).attempt}"), 0, _END)
    return said.decode("utf-8", "replace").strip()


def _folder(handle: Handle) -> Path:
    """A job's directory, of one that is seen from here."""
    here = PodHandle(handle).here
    assert here is not None, "whether it is seen is asked first"
    return here


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _logs(folder: Path) -> list[Path]:
    """The nodes' logs; and why a job's files never came to its directory, which boot.sh writes beside it."""
    return [*_files(folder.parent, f"{folder.name}.failed.*"), *_files(folder / "logs", "node-*.log")]


def _files(folder: Path, pattern: str) -> list[Path]:
    """Files by their names; none of a directory that is gone or cannot be read now."""
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []


def _name(folder: Path, file: Path) -> str:
    """How a file is called among a job's logs: by its path in the job's directory, or beside it."""
    return str(file.relative_to(folder if folder in file.parents else folder.parent))
