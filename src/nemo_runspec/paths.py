"""Where nemotron keeps what belongs to one user: job records, recipe environments, downloads."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from nemo_runspec.errors import UserError


def home() -> Path:
    """`$NEMOTRON_HOME`, else `~/.nemotron`. Not created here: a dry-run must write nothing.

    Raises:
        UserError: the variable holds no absolute path.
    """
    named = os.environ.get("NEMOTRON_HOME")
    if not named:
        return Path.home() / ".nemotron"
    if not expanded(named).is_absolute():
        raise UserError(
            f"NEMOTRON_HOME = '{named}' must be an absolute path",
            remedy="write the whole path; a relative one is another in each folder",
        )
    return expanded(named)


def expanded(text: str) -> Path:
    """A path with `~` replaced. `~name` of a user there is not stays as it is, where `Path.expanduser` would raise."""
    return Path(os.path.expanduser(text))  # noqa: PTH111


def jobs_dir() -> Path:
    """One folder per job, named after the job."""
    return home() / "jobs"


def envs_dir() -> Path:
    """Python environments of recipes, one per set of dependencies."""
    return home() / "envs"


def run_dir() -> Path:
    """What `NEMO_RUN_DIR` is for local jobs unless the profile names a `job_dir`."""
    return home() / "run"


def private_dir(path: Path) -> Path:
    """Creates a folder that only its owner may enter (0700), parents included where they are missing."""
    missing = []
    probe = path
    while not probe.exists():
        missing.append(probe)
        probe = probe.parent
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    return path


def write_private(path: Path, text: str) -> None:
    """Writes a file for its owner only (0600), whole or not at all, and leaves nothing beside it.

    Bytes of a path or an argument that are not UTF-8, which Python holds as surrogates, are written as they were.

    Raises:
        OSError: it cannot be written; also for text that stands for no bytes at all.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    try:
        content = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise OSError(errno.EILSEQ, "the text to be written is not Unicode", str(path)) from None
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        scratch.replace(path)
    except BaseException:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)
        raise
