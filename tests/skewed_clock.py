"""nemotron with a clock of its own: what another machine's clock makes of jobs whose times are told by others."""

from __future__ import annotations

from pathlib import Path

from support import Project

OFFSETS = (-7200, 7200)
"""Seconds that its clock is ahead."""

_OFF = """\
import datetime, time
right, right_ns, base = time.time, time.time_ns, datetime.datetime
time.time = lambda: right() + {0}
time.time_ns = lambda: right_ns() + {0} * 10**9
class Off(base):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)
datetime.datetime = Off
"""
"""A `sitecustomize.py`."""


def set_off(project: Project, folder: Path, seconds: float) -> dict[str, str]:
    """The environment of a process of this project whose clock is that much ahead, 0 for none."""
    place = folder / f"clock{seconds:g}"
    place.mkdir(exist_ok=True)
    (place / "sitecustomize.py").write_text(_OFF.format(seconds) if seconds else "")
    return {"PYTHONPATH": str(place)}
