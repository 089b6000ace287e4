"""Unpacks an archive into a folder: links and modes as they were, nothing outside the folder."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from pathlib import Path

from nemo_runspec.errors import UserError
from nemo_runspec.packaging.git import said

_BLOCK = 1 << 20


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks into a folder, which is made if it is not there. A new or empty one is filled whole or not at all.

    Raises:
        UserError: the archive is damaged, or the folder cannot be written.
    """
    try:
        if folder.is_dir() and any(folder.iterdir()):
            _extract(archive, folder)
            return
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            _extract(archive, scratch)
            scratch.chmod(0o755)
            scratch.replace(folder)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
    except OSError as error:
        raise UserError(f"the package cannot be unpacked: {error.strerror or error}", where=str(folder)) from None
    except (tarfile.TarError, zlib.error, EOFError, ValueError, OverflowError) as error:
        raise UserError(f"the package is damaged: {error}", where=str(archive)) from None


def _extract(archive: Path, folder: Path) -> None:
    """By the system's tar where there is one: ten times as fast, and it leaves no place outside the folder either."""
    tar = shutil.which("tar")
    if tar is None:
        extract_here(archive, folder)
        return
    done = subprocess.run(
        [tar, "-x", "-z", "-p", "-o", "-f", str(archive.absolute()), "-C", str(folder)],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        raise UserError(f"the package cannot be unpacked: {said(done.stderr)}", where=str(archive))


def extract_here(archive: Path, folder: Path) -> None:
    """The same without a tar program. Links are made last, so that nothing is written through one."""
    links: list[tarfile.TarInfo] = []
    with (
        gzip.open(archive) as stream,
        tarfile.open(fileobj=stream, mode="r|", encoding="utf-8", errors="surrogateescape") as tar,
    ):
        for member in tar:
            target = _inside(folder, member, archive)
            if member.issym():
                links.append(member)
            elif member.isdir():
                target.mkdir(parents=True, exist_ok=True)
            elif member.isfile():
                _extract_file(tar, member, target)
            else:
                raise UserError(f"the package holds {member.name!r}, no file, folder or link", where=str(archive))
        while stream.read(_BLOCK):  # to its end, which holds the checksum
            pass
    for member in links:
        place = _inside(folder, member, archive)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(member.linkname)


def _extract_file(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source = tar.extractfile(member)
    assert source is not None
    with target.open("wb") as out:
        shutil.copyfileobj(source, out, _BLOCK)
    target.chmod(member.mode & 0o777)
    os.utime(target, (member.mtime, member.mtime))


def _inside(folder: Path, member: tarfile.TarInfo, archive: Path) -> Path:
    parts = Path(member.name).parts
    if member.name.startswith("/") or ".." in parts:
        raise UserError(f"the package holds {member.name!r}, which is outside of it", where=str(archive))
    return folder.joinpath(*parts)
