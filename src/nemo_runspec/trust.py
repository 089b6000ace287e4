"""Whose files are obeyed where nobody named them: this user's and root's, and no file that somebody else can write.

An `env.toml` or a `recipes/` that is found above the working directory chooses what runs, and where secrets go. A file
that is named (`NEMOTRON_ENV_FILE`, `NEMOTRON_RECIPES`, a path on the command line) is meant.
"""

from __future__ import annotations

import json
import os
import shlex
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from nemo_runspec import paths
from nemo_runspec.errors import UserError
from nemo_runspec.lines import text_lines
from nemo_runspec.regular import read_json

PROJECT_MARK = "pyproject.toml"
_REPOSITORY = ".git"

_WITHOUT_OWNERS = frozenset({"9p", "drvfs", "vfat", "exfat", "ntfs", "fuseblk", "cifs", "smb3", "vboxsf", "virtiofs"})
"""File systems that make up owners and modes: everybody's disks of Windows, and folders of a host in its guest."""

_NOBODY = 65534
"""Whom the kernel names where a file's owner has no number in a container (user_namespaces(7))."""


def searched(start: Path) -> Iterator[Path]:
    """The folders in which a project's files are looked for: `start`, and those above it.

    The last one is the first that has a `pyproject.toml` or is the root of a git repository; the home directory; or the
    root of a file system.
    """
    home = _home()
    for folder in (start, *start.parents):
        yield folder
        ends = folder == home or any((folder / mark).exists() for mark in (PROJECT_MARK, _REPOSITORY))
        if ends or _device(folder) != _device(folder.parent):
            return


class Untrusted(UserError):
    """A file that was found, and that somebody else may have written."""


def check(path: Path, what: str) -> None:
    """Refuses what was found and somebody else may have written.

    Args:
        path: a file or a folder.
        what: what it is, such as `env file`.

    Raises:
        Untrusted: it, or the folder it lies in, is another user's, or others can write it, and it is not trusted.
    """
    _check((path, path.parent), path, what)


def check_tree(top: Path, folder: Path, what: str) -> None:
    """Refuses what was found where somebody else may have written anything below a folder of it.

    Args:
        top: what was found, and can be trusted.
        folder: in it.
        what: as in `check`.

    Raises:
        Untrusted: as `check` does.
    """
    for where, folders, files in os.walk(folder):
        _check((Path(where, name) for name in (*folders, *files)), top, what)


def _check(paths: Iterable[Path], top: Path, what: str) -> None:
    reason = next(filter(None, map(_reason, paths)), "")
    if reason and not _is_trusted(top):
        raise Untrusted(
            f"the {what} {top} is not obeyed: {reason}",
            where=str(top),
            remedy=f"if you trust whoever can write it: nemotron env trust {shlex.quote(str(top))}",
        )


def owner_of(path: Path) -> str:
    """The name of another user to whom a file belongs; '' for one of this user's or root's, or nobody's here."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return ""
    return "" if _is_ours(owner) else _name_of(owner) or ""


def trust(path: Path) -> Path:
    """Notes that a file or folder is obeyed from now on, as long as it has the same owner. Returns its whole path.

    Raises:
        UserError: there is no such file, or it cannot be noted.
    """
    try:
        whole = path.resolve(strict=True)
        known = {**_trusted(), str(whole): whole.stat().st_uid}
        paths.private_dir(paths.home())
        paths.write_private(_file(), json.dumps(known, indent=1) + "\n")
    except OSError as error:
        raise UserError(f"cannot trust {path}: {error.strerror or error}", where=str(path)) from None
    return whole


def _reason(path: Path) -> str:
    """Why what is at a path may be another user's doing; '' where it is not, or there is nothing."""
    for look in (path.lstat, path.stat):  # a link, and what it leads to
        try:
            status = look()
        except OSError:
            return ""
        reason = _of(path, status)
        if reason:
            return "" if _has_no_owners(path) else reason
    return ""


def _of(path: Path, status: os.stat_result) -> str:
    if not _is_ours(status.st_uid) and (name := _name_of(status.st_uid)):
        return f"{path} belongs to {name}"
    if stat.S_ISLNK(status.st_mode) or (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX):
        return ""  # a link has no mode; in a folder such as /tmp nobody replaces another one's file
    if status.st_mode & stat.S_IWOTH:
        return f"everybody can write {path}"
    if status.st_mode & stat.S_IWGRP and not _is_private(status.st_gid, status.st_uid):
        return f"the group {_group_of(status.st_gid)} can write {path}"
    return ""


def _is_ours(uid: int) -> bool:
    return uid in (os.geteuid(), os.getuid(), 0)


def _is_private(gid: int, uid: int) -> bool:
    """True if a group has no member but the owner: root's, the one that is named after its user, one nobody is in."""
    import grp
    import pwd

    try:
        group = grp.getgrgid(gid)
        owner = pwd.getpwuid(uid).pw_name
    except KeyError:  # a number that has no name here, as in a container: nobody else is in it
        return True
    return set(group.gr_mem) <= {owner} and group.gr_name in (owner, "root")


def _name_of(uid: int) -> str | None:
    """A user's name; None for a number that is nobody's here, as of a host's files in a container."""
    import pwd

    if uid == _NOBODY:
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def _group_of(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _has_no_owners(path: Path) -> bool:
    """True if the file system of a path makes up its owners and modes."""
    kinds: dict[str, str] = {}
    with suppress(OSError):
        for line in text_lines(Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")):
            fields, _, rest = line.partition(" - ")  # proc(5)
            kinds[fields.split()[2]] = rest.split()[0] if rest else ""
    device = _device(path)
    return device is not None and kinds.get(f"{os.major(device)}:{os.minor(device)}") in _WITHOUT_OWNERS


def _is_trusted(path: Path) -> bool:
    with suppress(OSError):
        whole = path.resolve(strict=True)
        return _trusted().get(str(whole)) == whole.stat().st_uid
    return False


def _trusted() -> dict[str, int]:
    try:
        known = read_json(_file())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _file() -> Path:
    return paths.home() / "trusted.json"


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None


def _device(path: Path) -> int | None:
    try:
        return path.stat().st_dev
    except OSError:
        return None
