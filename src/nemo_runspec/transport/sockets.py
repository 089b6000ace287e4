"""The folder of SSH connections' sockets: only its owner may enter it, and its path is short."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nemo_runspec.locks import Busy, take

_LONGEST = 60
"""Of the folder's path: a Unix socket's has at most 104 bytes (macOS; 108 on Linux), and ssh binds `<socket>.<16>`."""


def folder() -> Path:
    """`$XDG_RUNTIME_DIR/nemotron`, else `/tmp/nemotron-<uid>`; a new folder where that is somebody else's."""
    named = os.environ.get("XDG_RUNTIME_DIR", "")
    wanted = [Path(named, "nemotron")] if os.path.isabs(named) else []  # noqa: PTH117
    for path in (*wanted, Path(f"/tmp/nemotron-{os.getuid()}")):
        if len(os.fsencode(path)) <= _LONGEST and _is_ours(path):
            return path
    return Path(tempfile.mkdtemp(prefix="nemotron-", dir="/tmp"))


def _is_ours(path: Path) -> bool:
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not stat.S_IMODE(status.st_mode) & 0o077


@contextmanager
def held(lock: Path, deadline: float) -> Iterator[bool]:
    """Holds a lock between processes; False where another holds it until the deadline of `time.monotonic`."""
    with lock.open("a") as handle:
        try:
            take(handle.fileno(), deadline=deadline)
            free = True
        except Busy:
            free = False
        yield free
