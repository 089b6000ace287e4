"""Names that say which process made something, so that what a killed one left can be told from work in progress."""

from __future__ import annotations

import hashlib
import os


def mark() -> str:
    """This process, as a part of a file name."""
    from nemo_runspec.jobs.process import machine

    return f"{_short(machine())}-{os.getpid()}-{_short(_born(os.getpid()))}"


def is_left_over(name: str) -> bool | None:
    """Whether the process whose mark a name begins with is gone. None where that is not known: of another machine."""
    from nemo_runspec.jobs.process import machine

    place, _, rest = name.partition("-")
    pid, _, rest = rest.partition("-")
    if place != _short(machine()) or not pid.isdigit():
        return None
    return _short(_born(int(pid))) != rest.partition("-")[0]


def _born(pid: int) -> str:
    """When a process began, '' where there is none."""
    from nemo_runspec.jobs.process import process_of

    return process_of(pid).started


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
