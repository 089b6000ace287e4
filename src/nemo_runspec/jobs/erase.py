"""Folders taken away: hidden first, in one step, then emptied. Links are never followed."""

from __future__ import annotations

import os
import shutil
import stat
import time
from contextlib import suppress
from pathlib import Path

from nemo_runspec.processes import started

NEW, OLD = ".new-", ".rm-"
"""How folders begin that are being made, and that are being taken away."""

_LEFT_OVER = 3600.0
"""Seconds after which such a folder is what a killed process left."""


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


def erase_if_left_over(path: Path) -> None:
    """Removes what a killed process left of a job: what was being removed once that process is gone, what was being
    made once it is old enough, since its process may belong to another machine.
    """
    with suppress(OSError):
        if _was_being_removed(path.name) or time.time() - path.lstat().st_ctime > _LEFT_OVER:
            erase(path)


def _was_being_removed(name: str) -> bool:
    """True for `.rm-NAME-PID` where no such process runs here. If one does elsewhere, two remove it instead of one."""
    pid = name.rpartition("-")[2]
    return name.startswith(OLD) and pid.isdigit() and started(int(pid)) is None


def _make_writable(path: Path) -> None:
    """A job may have taken its own right to write from folders of its own."""
    for folder, _, _ in os.walk(path):
        with suppress(OSError):
            Path(folder).chmod(stat.S_IRWXU)
