"""A job's directory, removed where this machine sees the storage of its pods."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from nemo_runspec.errors import UserError
from nemo_runspec.remote.provider import Handle


def remove_directory(handle: Handle) -> None:
    """Removes a job's directory, whose path on this machine is the handle's `here`. One that is not there is gone.

    Raises:
        UserError: this machine does not see it, or may not remove it. A job that was never submitted has left nothing.
    """
    if handle.get("here"):
        _remove(Path(str(handle["here"])))
    elif handle.get("id"):
        raise UserError(
            f"{handle['name']}: its directory is on storage that this machine does not see",
            where=str(handle["job_dir"]),
            remedy=f"nemotron jobs rm --force {handle['name']} leaves it there; run_dir_here would let it be removed",
        )


def _remove(folder: Path) -> None:
    if folder.parent.name != "jobs" or ".." in folder.parts:
        raise UserError(f"{folder} is no directory of a job", remedy="remove it by hand, if it is not needed")
    trash = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}")
    try:
        folder.rename(trash)  # never half there under its own name
        shutil.rmtree(trash)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UserError(f"the job's files cannot be removed: {error.strerror}", where=str(folder)) from None
