"""Changes of a repository since its commit, and files of the job bundle among them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from nemo_runspec.packaging.git import GitError, Repository
from nemo_runspec.plans.model import Bundle

_NEW = ("??", "!!")


@dataclass(frozen=True, slots=True)
class Changes:
    """Paths from the repository's root: `uncommitted` ones that git knows, and `untracked` ones."""

    uncommitted: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Both."""
        return (*self.uncommitted, *self.untracked)


def changes_of(root: Path, folder: str, *, submodules: bool, every_file: bool) -> Changes:
    """What is not committed below a folder of the repository at `root`.

    Args:
        every_file: name each new file; else a folder with nothing but new files is one path that ends in a slash.

    Raises:
        GitError: git fails.
    """
    words = (
        f"--untracked-files={'all' if every_file else 'normal'}",
        f"--ignore-submodules={'none' if submodules else 'all'}",
    )
    rows = list(_status(Repository(root), *words, "--", folder or "."))
    return Changes(
        tuple(name for state, name in rows if state not in _NEW), tuple(name for state, name in rows if state in _NEW)
    )


def bundled_changes(bundle: Bundle, root: Path) -> tuple[str, ...]:
    """Files of the bundle below `root`, as paths from there, that the commit does not have as they are here.

    A file that git ignores is in no commit either. One that is gone from a folder that travels counts too.
    Files of a repository in the repository, such as a submodule, are compared with what is checked out there.
    """
    top = Path(os.path.realpath(root))
    found: set[str] = set()
    for repository, files in _by_repository(bundle, top).items():
        try:
            found.update(f"{_below(top, repository)}{name}" for name in _changed(repository, files))
        except GitError:  # a folder with a `.git` that is no repository: nothing is known of it
            continue
    return tuple(sorted(found))


def has_files_below(bundle: Bundle, root: Path) -> bool:
    """True if any file of the bundle lies below `root`."""
    return bool(_by_repository(bundle, Path(os.path.realpath(root))))


def _below(top: Path, repository: Path) -> str:
    return "" if repository == top else f"{repository.relative_to(top).as_posix()}/"


def _by_repository(bundle: Bundle, top: Path) -> dict[Path, set[str]]:
    """The repositories at or below `top` that hold files of the bundle, each with these as paths from its root."""
    known: dict[Path, Path] = {top: top}
    found: dict[Path, set[str]] = {}
    for source in (Path(os.path.realpath(file.source)) for file in bundle.files):
        if source.is_relative_to(top):
            repository = _repository_of(source.parent, known)
            found.setdefault(repository, set()).add(source.relative_to(repository).as_posix())
    return found


def _repository_of(folder: Path, known: dict[Path, Path]) -> Path:
    if folder not in known:
        known[folder] = folder if (folder / ".git").exists() else _repository_of(folder.parent, known)
    return known[folder]


def _changed(repository: Path, files: Collection[str]) -> Iterator[str]:
    """Those of the files that are new or changed, and what was deleted beside them."""
    folders = {file.rpartition("/")[0] for file in files}
    # A script of one's own travels alone: what was beside it does not matter, nor what else its folder holds.
    alone = len(files) == 1
    asked = files if alone else _topmost(folders)
    rows = list(_status(Repository(repository), "--untracked-files=normal", "--ignored=matching", "--", *asked))
    new_folders = tuple(name for state, name in rows if name.endswith("/") and state in _NEW)
    changed = {name for _, name in rows}
    yield from (file for file in files if file in changed or file.startswith(new_folders))
    if not alone:
        yield from (name for state, name in rows if "D" in state and name.rpartition("/")[0] in folders)


def _topmost(folders: Collection[str]) -> list[str]:
    """The folders without those that lie in another one."""
    kept: list[str] = []
    for folder in sorted(folders):
        if not any(folder == above or folder.startswith(f"{above}/") or not above for above in kept):
            kept.append(folder)
    return [folder or "." for folder in kept]


def _status(repository: Repository, *words: str) -> Iterator[tuple[str, str]]:
    """State (two letters) and path of what `git status` names; of a renamed file its new path."""
    rows = iter(repository.records("status", "--porcelain=v1", "-z", *words))
    for row in rows:
        yield row[:2], row[3:]
        if row[0] in "RC":
            next(rows, None)
