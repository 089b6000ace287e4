"""Locks between processes: `flock` on a file, freed by the kernel when the holder dies, however it dies."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_CANNOT = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
"""What a file system without locks answers. There is nothing better to do then than to go on: writes stay whole."""
_TICK = 0.05
"""Seconds between two tries of who waits until a deadline."""


class Busy(Exception):
    """Another process holds the lock."""


def take(
    file: int, *, wait: bool = True, deadline: float | None = None, on_wait: Callable[[], object] = lambda: None
) -> None:
    """Takes the lock of an open file. Without effect on a file system that has no locks.

    Args:
        file: its descriptor; closing it frees the lock.
        wait: until the holder is done.
        deadline: how long at most, as a time of `time.monotonic`.
        on_wait: called once where the lock is held and waited for.

    Raises:
        Busy: another process holds it, and is not waited for, or not any longer.
        OSError: anything else.
    """
    if _taken(file, wait=False):
        return
    if not wait:
        raise Busy
    on_wait()
    if deadline is None:
        _taken(file, wait=True)
        return
    while not _taken(file, wait=False):
        if time.monotonic() > deadline:
            raise Busy
        time.sleep(_TICK)


def free(file: int) -> None:
    """Frees the lock of an open file for all that share its descriptor: a forked process too."""
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_UN)


@contextmanager
def locked_file(
    path: Path, *, wait: bool = True, deadline: float | None = None, on_wait: Callable[[], object] = lambda: None
) -> Iterator[int]:
    """Holds the lock of a file, made (0600) where it is not there; its descriptor. Arguments and errors as `take`."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        take(descriptor, wait=wait, deadline=deadline, on_wait=on_wait)
        yield descriptor
    finally:
        os.close(descriptor)


def _taken(file: int, *, wait: bool) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
    return True
