"""Lines of a job command's own, on the error stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nemo_runspec.console import note

if TYPE_CHECKING:
    from nemo_runspec.records import JobRecord

_SLOW = 4.0
"""Seconds after which whoever waits for a platform's answer is told what is waited for."""


def say(text: str) -> None:
    """One line on the error stream, unless it is quiet."""
    note(text)


@contextmanager
def said_when_slow(records: Iterable[JobRecord]) -> Iterator[None]:
    """Says, once and only if it takes long, that the platforms of these jobs are being asked."""
    from threading import Timer

    names = sorted({record.executor for record in records if record.handle})
    said = f"{' and '.join(names)}: no answer yet; still asking (Ctrl-C ends the question, not the job)"
    timer = Timer(_SLOW, say, [said])
    timer.daemon = True
    if names:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
