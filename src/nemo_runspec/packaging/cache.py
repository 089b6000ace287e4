"""Archives of one user, by the digest of their contents: `<home>/packages/<digest>.tar.gz`.

An archive appears whole or not at all, so whoever is killed while writing leaves nothing that is believed. Jobs hold
hard links to theirs: an archive with one name only, not asked for in 30 days, is taken away. What is being made lies
beside the archives, under a hidden name with the mark of its process (`processes.mark`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from nemo_runspec import paths
from nemo_runspec.errors import UserError
from nemo_runspec.locks import take
from nemo_runspec.processes import is_left_over, mark

KEPT = 30 * 86400.0
"""Seconds that an archive of no job is kept after it was last asked for."""
_UNFINISHED = 86400.0
"""Seconds after which what is unfinished counts as left over where its process cannot be asked for."""
_SUFFIX, _SCRATCH, _BENCH = ".tar.gz", ".tmp", ".bench"


def packages_dir() -> Path:
    """Where the archives lie."""
    return paths.home() / "packages"


def find(digest: str) -> Path | None:
    """The archive with that digest, marked as used; None where there is none."""
    archive = packages_dir() / f"{digest}{_SUFFIX}"
    if not digest:
        return None
    try:
        os.utime(archive)
    except OSError:
        return archive if archive.is_file() else None
    return archive


def keep(write: Callable[[BinaryIO], str]) -> Path:
    """A new archive: `write` fills it and returns its digest.

    Raises:
        UserError: it cannot be written.
    """
    folder = packages_dir()
    try:
        paths.private_dir(folder)
        descriptor, name = tempfile.mkstemp(prefix=f".{mark()}-", suffix=_SCRATCH, dir=folder)
        scratch = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as out:
                digest = write(out)
                out.flush()
                os.fsync(out.fileno())
            archive = folder / f"{digest}{_SUFFIX}"
            scratch.replace(archive)
        except BaseException:
            scratch.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UserError(f"the package cannot be written: {error.strerror}", where=str(folder)) from None
    return archive


def make_bench() -> Path:
    """An empty folder (0700) for one packaging. Whoever asked for it removes it; `prune` does if that is killed.

    Raises:
        OSError: it cannot be made.
    """
    return Path(tempfile.mkdtemp(prefix=f".{mark()}-", suffix=_BENCH, dir=paths.private_dir(packages_dir())))


@contextmanager
def one_at_a_time(digest: str) -> Iterator[None]:
    """Lets one process make an archive while others wait for it. Without effect where files cannot be locked."""
    with _lock_file(digest) as handle:
        if handle is not None:
            with suppress(OSError):
                take(handle.fileno())
        yield


def prune(now: float | None = None) -> None:
    """Takes away what no job has and nobody asked for lately, and what killed processes left. Never raises OSError."""
    now = time.time() if now is None else now
    with suppress(OSError), os.scandir(packages_dir()) as entries:
        for entry in entries:
            with suppress(OSError):
                if _is_over(entry, now):
                    _remove(entry)


def _is_over(entry: os.DirEntry[str], now: float) -> bool:
    status = entry.stat(follow_symlinks=False)
    if entry.name.endswith(_SUFFIX):
        return status.st_nlink == 1 and now - status.st_mtime > KEPT
    if not entry.name.endswith((_SCRATCH, _BENCH)):
        return False
    gone = is_left_over(entry.name[1:])
    return now - status.st_mtime > _UNFINISHED if gone is None else gone


def _remove(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path, ignore_errors=True)
    else:
        os.unlink(entry.path)  # noqa: PTH108


@contextmanager
def _lock_file(digest: str) -> Iterator[BinaryIO | None]:
    """One of 16 files for all archives, so that none has to be taken away."""
    handle: BinaryIO | None = None
    with suppress(OSError):
        folder = paths.private_dir(packages_dir())
        descriptor = os.open(folder / f".lock-{digest[:1] or '0'}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        handle = os.fdopen(descriptor, "r+b")
    try:
        yield handle
    finally:
        if handle is not None:
            handle.close()
