"""Matches patterns with files as they are now. Links stay links, and `.git` never goes.

`*`, `?` and `[…]` work within one name and leave hidden files out, `**` goes into folders but not through links, a
folder that is matched brings all its files. Nothing of this is a shell's, so a name may hold any character.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from fnmatch import translate
from pathlib import Path

from nemo_runspec.errors import UserError
from nemo_runspec.packaging.model import LINK, PackageEntry, Unready

_WILD = re.compile(r"[*?\[]")
_BLOCK = 1 << 20


def matched_files(root: Path, patterns: Iterable[tuple[str, str]]) -> dict[str, Path]:
    """Path in the package → file or link, sorted.

    Args:
        root: what relative folders are relative to.
        patterns: each with its folder; paths in the package are relative to that folder.

    Raises:
        Unready: a pattern that matches no file.
        UserError: a match outside its folder, a folder that cannot be read.
    """
    found: dict[str, Path] = {}
    for pattern, folder in patterns:
        base = Path(os.path.normpath(root / folder))
        files = {os.path.relpath(path, base): path for path in _matches(base, pattern)}
        if not files:
            raise Unready(
                f"packager_include_pattern: '{pattern}' matches no file below {base}",
                remedy="correct it; it is relative to packager_relative_path, which is relative to the project's root",
            )
        outside = next((path for path in files if path.split("/")[0] == ".."), None)
        if outside is not None:
            raise UserError(
                f"packager_include_pattern: '{pattern}' matches {files[outside]}, which is not below {base}",
                remedy="name the folder above it with packager_relative_path",
            )
        found.update(files)
    return dict(sorted(found.items()))


def entry_of(file: Path) -> PackageEntry:
    """The entry of a file whose content has not been read.

    Raises:
        UserError: it is gone.
    """
    try:
        status = file.lstat()
    except OSError as error:
        raise unreadable(error) from None
    mode = LINK if stat.S_ISLNK(status.st_mode) else f"100{stat.S_IMODE(status.st_mode) & 0o777:03o}"
    return PackageEntry(mode, "", status.st_size, file)


def with_id(entry: PackageEntry, algorithm: str) -> PackageEntry:
    """The entry with git's id of its content, read now if it was not before.

    Args:
        algorithm: `sha1` or `sha256`, as the repository's own ids are.

    Raises:
        UserError: the file cannot be read.
    """
    if entry.id or not isinstance(entry.source, Path):
        return entry
    try:
        if entry.mode == LINK:
            target = os.fsencode(os.readlink(entry.source))  # noqa: PTH115 (a Path would tidy it)
            return entry._replace(id=blob_id(algorithm, len(target), [target]))
        with entry.source.open("rb") as handle:
            size = os.fstat(handle.fileno()).st_size
            blocks = iter(lambda: handle.read(_BLOCK), b"")
            return entry._replace(id=blob_id(algorithm, size, blocks), size=size)
    except OSError as error:
        raise unreadable(error) from None


def blob_id(algorithm: str, size: int, blocks: Iterable[bytes]) -> str:
    """git's id of a content: the hash of `blob <size>`, a NUL and the content (git's book, "Git Objects")."""
    whole = hashlib.new(algorithm, b"blob %d\0" % size)
    for block in blocks:
        whole.update(block)
    return whole.hexdigest()


def unreadable(error: OSError) -> UserError:
    """The message for a file that cannot be read."""
    return UserError(f"cannot read {error.filename}: {error.strerror}", where=str(error.filename))


def _matches(base: Path, pattern: str) -> Iterator[Path]:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    start = Path("/") if pattern.startswith("/") else base
    for path in dict.fromkeys(_walk(str(start), parts)):
        if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114 (a million calls: text is faster)
            yield from map(Path, _below(path))
        elif _travels(path):
            yield Path(path)


def _walk(folder: str, parts: list[str]) -> Iterator[str]:
    """Paths that match, `parts` being the names of the pattern still to be matched."""
    if not parts:
        yield folder
        return
    name, rest = parts[0], parts[1:]
    if name == ".git":
        return
    if name == "**":
        for inner in (folder, *_folders(folder)):
            yield from _walk(inner, rest) if rest else _children(inner)
        return
    plain = os.path.join(folder, name)  # noqa: PTH118
    if os.path.lexists(plain):
        yield from _walk(os.path.normpath(plain), rest)
    if os.path.lexists(plain) or not _WILD.search(name):
        return
    fits = re.compile(translate(name)).match
    for entry in _scan(folder):
        if fits(entry.name) and (name.startswith(".") or not entry.name.startswith(".")):
            yield from _walk(entry.path, rest)


def _folders(folder: str) -> Iterator[str]:
    """Every folder below, hidden ones and links left out."""
    for entry in _scan(folder):
        if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
            yield entry.path
            yield from _folders(entry.path)


def _children(folder: str) -> Iterator[str]:
    return (e.path for e in _scan(folder) if not e.is_dir(follow_symlinks=False) and not e.name.startswith("."))


def _below(folder: str) -> Iterator[str]:
    """Every file and link below, hidden ones too."""
    for entry in _scan(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from _below(entry.path)
        elif _travels(entry.path):
            yield entry.path


def _travels(path: str) -> bool:
    """True for files and links: no package holds a socket, a pipe or a device."""
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:
        raise unreadable(error) from None
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _scan(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted((e for e in entries if e.name != ".git"), key=lambda e: e.name)
    except (NotADirectoryError, FileNotFoundError):
        return []
    except OSError as error:
        raise unreadable(error) from None
