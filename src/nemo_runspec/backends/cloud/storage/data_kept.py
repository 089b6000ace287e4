"""Copies outputs to a mount first, so that an upload that fails loses none. Travels with jobs."""

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Sequence  # noqa: UP035  (Python 3.6)

if TYPE_CHECKING or __package__:
    from nemo_runspec.backends.cloud.storage.data_outputs import Upload, why
else:  # in a job's directory
    from data_outputs import Upload, why

_FULL = (errno.ENOSPC, errno.EDQUOT)


class Kept(NamedTuple):
    """How many files were copied, and why another one was not: '' where all were."""

    copied: int
    problem: str


def keep(files: "Sequence[Upload]", folder: Path, node: int) -> Kept:
    """Copies files into a folder, each to where its key says, as many as can be.

    Args:
        node: which this is; the others may copy to the same folder meanwhile.
    """
    scratch = folder / f".node-{node}.partial"
    copied, problem = 0, ""
    for each in files:
        path = place_of(folder, each.key)
        try:
            _copy(each.file, path, scratch)
            copied += 1
        except OSError as error:
            problem = problem or why(error.filename or path, error)
            if error.errno in _FULL:  # others need the little that is left more than the files that come now
                break
    return Kept(copied, problem)


def place_of(folder: Path, key: str) -> Path:
    """Where the copy of an output goes. A `..` of an output's path must not lead out of the folder."""
    below = os.path.normpath("/" + key).lstrip("/")
    return folder / os.fsdecode(below.encode("utf-8", "surrogateescape"))


def _copy(file: Path, path: Path, scratch: Path) -> None:
    """Whole or not at all: a copy gets its name once it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove(scratch)  # of a pod that was killed, perhaps of a file that may not be written
    try:
        shutil.copyfile(str(file), str(scratch))
        with suppress(OSError):  # not all storage knows modes
            shutil.copymode(str(file), str(scratch))
        scratch.replace(path)
    except OSError:
        _remove(scratch)
        raise


def _remove(file: Path) -> None:
    with suppress(OSError):
        file.unlink()
