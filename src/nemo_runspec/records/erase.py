"""Folders taken away: hidden first, in one step, then emptied. Links are never followed."""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from contextlib import suppress
from pathlib import Path

from nemo_runspec.processes import is_left_over, mark, started

NEW, OLD = ".new-", ".rm-"
"""How folders begin that are being made, and that are being taken away."""

_LEFT_OVER = 86400.0
"""Seconds after which such a folder is what a killed process left: by this machine's clock, which may be hours ahead of
the one that tells how old it is."""

_PID = re.compile(r"[0-9]{1,10}", re.ASCII)


def erase(path: Path) -> None:
    """Removes a folder with all it holds, or a link without what it points to.

    Raises:
        OSError: something of it cannot be removed.
    """
    if path.is_symlink():
        path.unlink()
        return
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        if path.exists():  # somebody else removes it too
            erase(path)
    except PermissionError:
        _make_writable(path)
        shutil.rmtree(path)


def hidden(prefix: str, name: str) -> str:
    """What a folder is called while this process makes (`NEW`) or removes (`OLD`) it: `.new-MARK-NAME`."""
    return f"{prefix}{mark()}-{name}"


def erase_if_left_over(path: Path) -> None:
    """Removes what a killed process left of a job: once that process is known to be gone, else, since it may belong to
    another machine, once the folder is old enough.
    """
    with suppress(OSError):
        if _is_gone(path.name) or time.time() - path.lstat().st_ctime > _LEFT_OVER:
            erase(path)


def _is_gone(name: str) -> bool:
    """True if the process that gave the folder its name is gone. Older releases wrote `.rm-NAME-PID`: if that process
    runs elsewhere, two remove the folder instead of one.
    """
    known = is_left_over(name.removeprefix(NEW).removeprefix(OLD))
    if known is not None:
        return known
    pid = name.rpartition("-")[2]
    return name.startswith(OLD) and bool(_PID.fullmatch(pid)) and started(int(pid)) is None


def _make_writable(path: Path) -> None:
    """A job may have taken its own right to write from folders of its own."""
    for folder, _, _ in os.walk(path):
        with suppress(OSError):
            Path(folder).chmod(stat.S_IRWXU)
