"""The archive of a plan's code package: taken from this user's cache, or made now and exactly what was planned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nemo_runspec.console import Say
from nemo_runspec.errors import Problems, UserError
from nemo_runspec.packaging import cache
from nemo_runspec.packaging.archive import write_archive
from nemo_runspec.packaging.contents import algorithm_of, contents_of
from nemo_runspec.packaging.git import GitError
from nemo_runspec.packaging.git_scratch import git_scratch
from nemo_runspec.packaging.messages import problems_of
from nemo_runspec.packaging.unpack import unpack
from nemo_runspec.plans.model import Package
from nemo_runspec.text import count

__all__ = ["Packed", "pack", "unpack"]


@dataclass(frozen=True, slots=True)
class Packed:
    """A package as a file.

    Args:
        archive: the tar.gz in the cache, for its owner only; None for a package of kind `none`.
        digest: as in the plan; here it is known also where the plan was too large to read for it.
        bytes: the archive's size.
    """

    archive: Path | None
    digest: str
    bytes: int


def pack(package: Package, say: Say) -> Packed:
    """The archive of a plan's package. Where it was made before, nothing of the repository is read.

    Args:
        say: takes one line when an archive is made, which may take a while.

    Raises:
        UserError: the plan had problems; what was planned has changed since; a commit, submodule or file is gone;
            the archive cannot be written.
    """
    if package.kind == "none":
        return Packed(None, package.digest, 0)
    if package.problems:
        raise Problems("the code cannot be packaged", problems_of(package))
    archive = cache.find(package.digest)
    cache.prune()
    if archive is None:
        with cache.one_at_a_time(package.digest):
            archive = cache.find(package.digest) or _make(package, say)
    return Packed(archive, archive.name.partition(".")[0], archive.stat().st_size)


def _make(package: Package, say: Say) -> Path:
    say(f"packaging {count(package.files, 'file')} of {package.root}")
    try:
        return cache.keep(lambda out: _write(package, out))
    except GitError as error:
        raise UserError(f"git fails in {package.root}: {error}", where=package.root) from None


def _write(package: Package, out: BinaryIO) -> str:
    with git_scratch() as scratch:
        contents = contents_of(package, scratch)
        _require(package, contents.digest())
        written = write_archive(contents, out, scratch, algorithm_of(package.commit))
        digest = written.digest()
        _require(package, digest)
        return digest


def _require(package: Package, digest: str) -> None:
    """Raises where what would travel is not what was planned. An empty digest is one that is not known (yet)."""
    if digest and package.digest and digest != package.digest:
        raise UserError(
            f"the files to be packaged have changed since the plan was made ({package.kind}, {package.root})",
            remedy="make the plan again; while a job is submitted they must not change",
        )
