"""Deletes what is left of ended jobs before they are forgotten."""

from __future__ import annotations

from pathlib import Path

from nemo_runspec.backends import get_backend
from nemo_runspec.records.record import JobRecord


def clean_up(record: JobRecord, folder: Path) -> None:
    """Removes what is left of a job that is over, its folder excepted: a container, files where it ran.

    Args:
        folder: the job's on this machine.

    Raises:
        UserError: something of it still runs, or it cannot be known or removed.
    """
    backend = get_backend(record.executor)
    if record.handle:
        from nemo_runspec.remote.cancel import clear

        clear(record)
    elif backend.worker:
        backend.load_worker().clear(record, folder)
