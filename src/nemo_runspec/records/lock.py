"""One writer per job at a time, over all processes of this machine and, where the file system can, of others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nemo_runspec.locks import take

_LOCK = ".lock"


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
            take(descriptor, wait=wait)
            if not _is_still_there(descriptor, folder / _LOCK):
                continue
            yield
            return
        finally:
            os.close(descriptor)


def _is_still_there(descriptor: int, path: Path) -> bool:
    """False where the job's folder was moved away and perhaps made anew meanwhile."""
    return os.path.samestat(os.fstat(descriptor), path.stat())
