"""Files of nemotron's own state, read as what they must be: regular files, within a limit, never waited for.

A FIFO, a device, a link or a file of many gigabytes in the place of a record must not hold up, or end, whoever lists
jobs. `open(2)` with `O_NONBLOCK` never waits for a FIFO's writer; `O_NOFOLLOW` refuses a link as the last component.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

MOST = 16 << 20
"""Bytes of one record or note; the largest real ones, plans and sweeps of a thousand runs, have a tenth of that."""

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
}


class NotRegular(OSError):
    """Something else than a regular file within the limit. `strerror` is the end of a sentence: `it is a FIFO`."""


def open_regular(path: Path, *, follow: bool = False) -> int:
    """A descriptor for reading a regular file; whoever calls closes it.

    Args:
        follow: whether a link may lead to it, as to what a job has written for itself.

    Raises:
        NotRegular: it is no regular file. OSError: it cannot be opened.
    """
    _expect_regular(path.stat().st_mode if follow else path.lstat().st_mode, path)  # a device acts when it is opened
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        _expect_regular(os.fstat(descriptor).st_mode, path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def read_part(path: Path, start: int, most: int) -> tuple[bytes, bool]:
    """Bytes of a regular file, as of a log that grows, and whether there are more. One that is gone has none.

    Args:
        start: how many come before them; below 0, how many there are at most behind them all.
        most: bytes.
    """
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            begun = file.seek(start if start >= 0 else max(0, size + start))
            content = file.read(max(0, most))
            return content, begun + len(content) < size
    except OSError:
        return b"", False


def read_regular(path: Path, *, most: int = MOST, follow: bool = False) -> bytes:
    """What is in a regular file.

    Args:
        most: bytes it may have.

    Raises:
        NotRegular: it is no regular file, or larger. OSError: it cannot be read.
    """
    with os.fdopen(open_regular(path, follow=follow), "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise NotRegular(errno.EFBIG, f"it is larger than {most >> 20} MiB", str(path))
    return content


def read_regular_text(path: Path, *, most: int = MOST) -> str:
    """The same as text; bytes that are not UTF-8 are held as `paths.write_private` takes them."""
    return read_regular(path, most=most).decode("utf-8", "surrogateescape")


def read_json(path: Path) -> Any:
    """What is in a regular file of JSON. Raises `ValueError` for what is none, `OSError` as `read_regular`."""
    try:
        return json.loads(read_regular_text(path))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def is_kept(entry: os.DirEntry[str]) -> bool:
    """True if it stands for a job or sweep: a folder, or a link, even one that leads nowhere."""
    return entry.is_symlink() or entry.is_dir(follow_symlinks=False)


def _expect_regular(mode: int, path: Path) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "no file")
        raise NotRegular(errno.EINVAL, f"it is {kind}, not a regular file", str(path))
