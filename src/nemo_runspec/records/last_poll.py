"""When a job's platform has last said how the job is: the time of an empty file in the job's folder.

A record is written only where something has changed, so it cannot say that.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from nemo_runspec.records.record import JobRecord, moment

_FILE = ".asked"


def note_asked(folder: Path) -> None:
    """Notes that it has just done so.

    By the clock of this process, as the record's times are: the file system's own may be behind it.
    """
    with suppress(OSError):
        (folder / _FILE).touch(mode=0o600)
        os.utime(folder / _FILE, ns=(now := time.time_ns(), now))


def known_since(record: JobRecord, folder: Path) -> str | None:
    """When what is written of a job elsewhere was last known to be so, UTC, ISO 8601; None where it never was.

    Never before its last state: that was written down some milliseconds after the answer had come.
    """
    told = record.facts.asked
    try:
        noted = moment((folder / _FILE).stat().st_mtime) or ""
    except OSError:
        noted = ""
    known = max(told, noted)
    return max(known, record.states[-1].time) if known else None
