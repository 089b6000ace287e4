"""How a test waits: for something that can be seen, and for so long that only a hang is a failure.

A time to sleep is either too short for a busy machine or too long for an idle one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, AnyStr, TypeVar

import pytest

JobStatus = TypeVar("JobStatus")

LONG = 120.0
"""Seconds. Tests run six at a time on two cores: what takes one second alone may take twenty."""

PAUSE, LONGEST_PAUSE = 0.05, 2.0
"""Seconds between two looks, at least and at most: twice what a look takes, which may be a process's whole life."""

PATIENT_CLIENT = f"""\
from nemo_runspec.transport import ssh_config, ssh
ssh.GREETING_S = ssh_config.LOCAL_S = {LONG}
"""
"""A `sitecustomize.py` for tests that count SSH connections: else one that a busy machine keeps silent for a while is
given up, and made anew."""

HASTY_CLIENT = """\
from nemo_runspec.backends.cloud import renewal
from nemo_runspec.remote import unconfirmed
from nemo_runspec.transport import web

def hasty(self, *args, patience=60.0, began=web.Web.__init__, **options):
    began(self, *args, patience=min(patience, 2.0), **options)

web.Web.__init__ = hasty
renewal.PAUSES = unconfirmed.PAUSES = (0.1, 0.1)
"""
"""A `sitecustomize.py` for tests of what is done once a platform is given up that fails until it is mended: a minute of
patience is two seconds. Not for what passes by itself: on a busy machine one answer may take as long."""


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as PATIENT_CLIENT, for this process."""
    for name in ("ssh.GREETING_S", "ssh_config.LOCAL_S"):
        monkeypatch.setattr(f"nemo_runspec.transport.{name}", LONG)


def until(
    look: Callable[[], JobStatus], what: str = "it", good: Callable[[JobStatus], object] = bool, seconds: float = LONG
) -> JobStatus:
    """What is seen as soon as it is good.

    Args:
        what: it, in words, for the failure.
        good: whether it is; anything that is not empty, as long as nothing else is said. A file that is not there yet
            is not.

    Raises:
        AssertionError: it was not in so many seconds.
    """
    end = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        late = began > end  # before the look: on a busy machine that may take all of the time
        seen: JobStatus | FileNotFoundError
        try:
            if good(seen := look()):
                return seen
        except FileNotFoundError as error:
            seen = error
        assert not late, f"{what} never came: after {seconds:g} s it is still {seen!r}"
        time.sleep(pause_after(began))


def pause_after(began: float) -> float:
    """Seconds to wait before the next look, after one that began then (`time.monotonic`)."""
    return min(max(PAUSE, 2 * (time.monotonic() - began)), LONGEST_PAUSE)


def open_gate(job_dir: Path, name: str = "go") -> None:
    """Makes the file that a job waits for, in its directory, as soon as that is there.

    A pod makes its job's directory itself, and its platform says that it runs before it has.
    """
    until(job_dir.is_dir, f"the job's directory {job_dir}")
    (job_dir / name).touch()


def line_of(stream: IO[AnyStr] | None, seconds: float = LONG) -> AnyStr:
    """The next line of a process's stream; empty at its end.

    Raises:
        AssertionError: none came in so many seconds.
    """
    assert stream is not None
    lines: list[AnyStr] = []
    reader = threading.Thread(target=lambda: lines.append(stream.readline()), daemon=True)
    reader.start()
    reader.join(seconds)
    assert lines, f"no line came in {seconds:g} s"
    return lines[0]
