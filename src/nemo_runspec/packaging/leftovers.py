"""Names that say which process made something, so that what a killed one left can be told from work in progress."""

from __future__ import annotations

import hashlib
import os

from nemo_runspec.processes import machine, started


def mark() -> str:
    """This process, as a part of a file name."""
    return f"{_short(machine())}-{os.getpid()}-{_short(started(os.getpid()) or '')}"


def is_left_over(name: str) -> bool | None:
    """Whether the process whose mark a name begins with is gone. None where that is not known: of another machine."""
    place, _, rest = name.partition("-")
    pid, _, rest = rest.partition("-")
    if place != _short(machine()) or not pid.isdigit():
        return None
    return _short(started(int(pid)) or "") != rest.partition("-")[0]


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
