"""A job's directory, removed where this machine sees the storage of its pods."""

from __future__ import annotations

import glob
import shutil
import uuid
from contextlib import suppress
from pathlib import Path

from nemo_runspec.backends.cloud.handle import PodHandle
from nemo_runspec.backends.provider import Handle
from nemo_runspec.errors import UserError


def remove_directory(handle: Handle) -> None:
    """Removes a job's directory, whose path on this machine is the handle's `here`. One that is not there is gone.

    What an earlier removal could not remove is taken up again.

    Raises:
        UserError: this machine does not see it, or may not remove it. A job that was never submitted has left nothing.
    """
    job = PodHandle(handle)
    if job.here is not None:
        _remove(job.here)
    elif job.id:
        raise UserError(
            f"{job.name}: its directory is on storage that this machine does not see",
            where=job.job_dir,
            remedy=f"nemotron jobs rm --force {job.name} leaves it there; run_dir_here would let it be removed",
        )


def _remove(folder: Path) -> None:
    if folder.parent.name != "jobs" or ".." in folder.parts:
        raise UserError(f"{folder} is no directory of a job", remedy="remove it by hand, if it is not needed")
    place = folder
    try:
        with suppress(FileNotFoundError):
            folder.rename(folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}"))  # never half there under its name
        for place in _left(folder):
            shutil.rmtree(place)
    except OSError as error:
        raise UserError(f"the job's files cannot be removed: {error.strerror}", where=str(place)) from None


def _left(folder: Path) -> list[Path]:
    """What is there of it under names that a removal gave it."""
    return sorted(folder.parent.glob(f".{glob.escape(folder.name)}.{'[0-9a-f]' * 8}"))
