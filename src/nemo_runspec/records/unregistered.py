"""Jobs whose work is done, and of which nobody has registered what they have made: found without reading all records.

Beside the jobs lies a folder with an empty file by the name of each. It is a convenience, as the index is: what a file
says is believed where the job's record says so too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from nemo_runspec.jobside.exit_status import UNREGISTERED
from nemo_runspec.records.record import JobRecord
from nemo_runspec.script.markers import REASONS

LATER = "nemotron artifacts register"
"""The command by which that is made good, with the job's name behind it."""

_CAUSE = re.compile(rf"{REASONS['registration']}|^\d+ tasks: ")
"""How the cause of such a job begins; that of an array which is one job says how many of its tasks have failed."""


def is_unregistered(record: JobRecord) -> bool:
    """True if a job's work is done, and what it has made is not registered."""
    is_said = _CAUSE.search(record.cause) is not None
    return record.state == "failed" and record.exit_code == UNREGISTERED and is_said


def lacks_registration(record: JobRecord) -> bool:
    """True if its store, or W&B, has not been told of all that it made."""
    return is_unregistered(record) or bool(record.wandb.get("unregistered"))


def mark(root: Path, record: JobRecord) -> None:
    """Notes that a job is one of them, or is not any more.

    Args:
        root: the folder of the jobs.
    """
    if not record.ended:
        return
    file = _folder(root) / record.name
    with suppress(OSError):
        if is_unregistered(record):
            file.parent.mkdir(mode=0o700, exist_ok=True)
            file.touch(mode=0o600)
        else:
            file.unlink(missing_ok=True)


def marked(root: Path) -> Sequence[str]:
    """The names of jobs that were noted, the oldest name first."""
    try:
        return sorted(path.name for path in _folder(root).iterdir())
    except OSError:
        return ()


def _folder(root: Path) -> Path:
    return root.with_name(f"{root.name}-unregistered")
