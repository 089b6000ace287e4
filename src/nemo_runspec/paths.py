"""Folders for what belongs to one user: job records, recipe environments, downloads."""

from __future__ import annotations

import errno
import os
import stat
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
        return user_home() / ".nemotron"
    if not expanded(named).is_absolute():
        raise UserError(
            f"NEMOTRON_HOME = '{named}' must be an absolute path",
            remedy="write the whole path; a relative one is another in each folder",
        )
    return expanded(named)


def working_directory() -> Path:
    """The directory of the call.

    Raises:
        UserError: somebody has removed it.
    """
    try:
        return Path.cwd()
    except OSError:
        raise UserError("the working directory is gone", remedy="cd somewhere else") from None


def expanded(text: str) -> Path:
    """A path with `~` replaced. `~name` of a user there is not stays as it is, where `Path.expanduser` would raise.

    For what is read: such a file is not there. What is written goes where `expand_user` says.
    """
    return Path(os.path.expanduser(text))  # noqa: PTH111


def expand_user(text: str, what: str) -> Path:
    """The same for what will be written, or must be there.

    Args:
        what: the key that names the path.

    Raises:
        UserError: the path begins with `~name` of a user there is not.
    """
    found = expanded(text)
    if str(found).startswith("~"):
        user = text.partition("/")[0]
        raise UserError(
            f"{what} = '{text}': this machine has no user '{user[1:]}'"
            if user != "~"
            else f"{what} = '{text}': no home",
            remedy="write the whole path; for a file whose name begins so, ./ before it",
            key=what,
        )
    return found


def user_home() -> Path:
    """The user's home; `/` for a user without one, as a container's may be, where `Path.home` would raise."""
    return Path(os.path.expanduser("~").replace("~", "/", 1) or "/")  # noqa: PTH111


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
        OSError: it cannot be written; also for text that stands for no bytes at all, and where something other than a
            file is in its place.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "it is no regular file", str(path))
    _replace(path, _encoded(path, text))


def write_output(path: Path, text: str) -> None:
    """Writes where a person wants it: as `write_private`, but a link is followed, and a device or a pipe written to.

    Raises:
        OSError: it cannot be written; also where somebody else may have put the link or pipe there for others to meet.
    """
    _refuse_planted(path.absolute())
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb", buffering=0) as handle:
            handle.write(_encoded(path, text))
    else:
        write_private(Path(os.path.realpath(path)), text)


def _refuse_planted(path: Path, hops: int = 40) -> None:
    """The rule of Linux's fs.protected_symlinks and fs.protected_fifos (proc_sys_fs(5)), which `realpath` goes around:
    in a folder such as /tmp, links and pipes count only of this user and of the folder's owner.
    """
    for part in (path, *path.parents):
        try:
            status, folder = part.lstat(), part.parent.stat()
        except OSError:
            continue
        shared = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
        kind = "link" if stat.S_ISLNK(status.st_mode) else "pipe" if stat.S_ISFIFO(status.st_mode) else ""
        if kind and shared and status.st_uid not in (os.geteuid(), folder.st_uid):
            raise PermissionError(errno.EACCES, f"{part} is another user's {kind}", str(path))
    if path.is_symlink() and hops:
        _refuse_planted(Path(os.path.normpath(path.parent / path.readlink())), hops - 1)


def _encoded(path: Path, text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise OSError(errno.EILSEQ, "the text to be written is not Unicode", str(path)) from None


def _replace(path: Path, content: bytes) -> None:
    """Puts a new file, for its owner only, in the place of one that may be there.

    Its name until then cannot be foreseen, and what has that name is not opened: others may write in this folder too.
    """
    scratch = path.with_name(f".{path.name[:100]}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        scratch.replace(path)
    except BaseException:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)
        raise


def below(path: str, folder: str) -> bool:
    """True where `path` is `folder` or lies inside it. Both as text, nothing is looked up."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
