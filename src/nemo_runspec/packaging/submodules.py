"""Where the repository of a submodule lies: in the working tree, or below `modules` in the git directory."""

from __future__ import annotations

import shlex

from nemo_runspec.packaging.git import Repository
from nemo_runspec.packaging.model import Unready


def submodule(repository: Repository, owner: str, path: str, commit: str) -> Repository:
    """The repository that has the recorded commit of a submodule.

    Args:
        owner: the commit or tree that records the submodule; `path`: where, from the repository's root.
        commit: the recorded commit.

    Raises:
        Unready: it was never initialised, or that commit was not fetched.
    """
    candidates = [checked_out(repository, path), _stored(repository, owner, path)]
    known = [candidate for candidate in candidates if candidate is not None]
    for candidate in known:
        if candidate.ask("cat-file", "-e", f"{commit}^{{commit}}") is not None:
            return candidate
    wrong = f"has no commit {commit[:12]}, which is the recorded one" if known else "is not initialised"
    folder = shlex.quote(str(repository.folder))
    raise Unready(
        f"submodule {path} {wrong}",
        where=str(repository.folder),
        remedy=f"git -C {folder} submodule update --init --recursive -- {shlex.quote(path)}, "
        "or packager_include_submodules = false",
    )


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
