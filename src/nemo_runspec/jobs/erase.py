"""Folders taken away: hidden first, in one step, then emptied. Links are never followed."""

from __future__ import annotations

import os
import shutil
import stat
import time
from contextlib import suppress
from pathlib import Path

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
    """Removes what a killed process left of a job, once it is old enough to be sure of that."""
    with suppress(OSError):
        if time.time() - path.lstat().st_ctime > _LEFT_OVER:
            erase(path)


def _make_writable(path: Path) -> None:
    """A job may have taken its own right to write from folders of its own."""
    for folder, _, _ in os.walk(path):
        with suppress(OSError):
            Path(folder).chmod(stat.S_IRWXU)
