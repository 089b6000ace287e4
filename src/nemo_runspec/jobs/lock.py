"""One writer per job at a time, over all processes of this machine and, where the file system can, of others."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOCK = ".lock"
_CANNOT = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
"""What a file system without locks answers. There is nothing better to do then than to go on: writes stay whole."""


class Busy(Exception):
    """Another process holds the lock."""


@contextmanager
def locked(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Holds the lock of a job. The kernel frees it when its holder dies, however it dies.

    Raises:
        FileNotFoundError: the job is gone, also where it was removed while this process waited.
        Busy: somebody else holds it, and `wait` is False.
    """
    while True:
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _take(descriptor, wait)
            if not _is_still_there(descriptor, folder / _LOCK):
                continue
            yield
            return
        finally:
            os.close(descriptor)


def _take(descriptor: int, wait: bool) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Busy from None
    except OSError as error:
        if error.errno not in _CANNOT:
            raise


def _is_still_there(descriptor: int, path: Path) -> bool:
    """False where the job's folder was moved away and perhaps made anew meanwhile."""
    return os.path.samestat(os.fstat(descriptor), path.stat())
