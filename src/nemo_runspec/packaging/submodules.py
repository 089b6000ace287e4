"""Finds the repository of a submodule: in the working tree, or below `modules` in the git directory."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from nemo_runspec.packaging.git import Repository
from nemo_runspec.packaging.git_scratch import GitScratch
from nemo_runspec.packaging.model import Unready


def submodule(repository: Repository, owner: str, path: str, commit: str, scratch: GitScratch) -> Repository:
    """The repository that has the recorded commit of a submodule.

    Args:
        owner: the commit or tree that records the submodule.
        path: where, from the repository's root.
        commit: the recorded commit.

    Raises:
        Unready: it was never initialised, or that commit was not fetched.
    """
    is_there = False
    for candidate in _candidates(repository, owner, path):
        if scratch.tree_of(candidate, commit) is not None:
            return candidate
        is_there = True
    wrong = f"has no commit {commit[:12]}, which is the recorded one" if is_there else "is not initialised"
    folder = shlex.quote(str(repository.folder))
    raise Unready(
        f"submodule {path} {wrong}",
        where=str(repository.folder),
        remedy=f"git -C {folder} submodule update --init --recursive -- {shlex.quote(path)}, "
        "or packager_include_submodules = false",
    )


def _candidates(repository: Repository, owner: str, path: str) -> Iterator[Repository]:
    """Where it may be; the second is looked for only where the first will not do."""
    here = checked_out(repository, path)
    if here is not None:
        yield here
    stored = _stored(repository, owner, path)
    if stored is not None:
        yield stored


def checked_out(repository: Repository, path: str) -> Repository | None:
    """The submodule in the working tree, None where it is not checked out."""
    folder = repository.folder / path
    return Repository(folder) if not repository.bare and (folder / ".git").exists() else None


def _stored(repository: Repository, owner: str, path: str) -> Repository | None:
    rows = repository.ask("config", "--blob", f"{owner}:.gitmodules", "-z", "--get-regexp", r"^submodule\..*\.path$")
    for row in (rows or "").split("\0"):
        key, _, value = row.partition("\n")
        if value.rstrip("/") == path:
            name = key.removeprefix("submodule.").removesuffix(".path")
            folder = repository.folder / repository.line("rev-parse", "--git-common-dir") / "modules" / name
            return Repository(folder, bare=True) if folder.is_dir() else None
    return None
