"""A repository that is checked out: what git says of it, asked with as few processes as can be.

Each one costs a dry run some milliseconds; on a file system that a cluster shares, many more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from nemo_runspec.errors import UserError
from nemo_runspec.packaging.git import ForeignOwner, GitError, Repository
from nemo_runspec.paths import expanded

_SUBMODULE = b"160000 "
"""The mode of a submodule's entry in an index (gitformat-index(5), "gitlink")."""

_INFO = "info/attributes"
_FILES = ("index", "objects", _INFO)
"""Of a git directory; `_INFO` is the last thing that git says before it names the commit."""

_PLACES = (("--show-toplevel",), ("--git-common-dir",), *(("--git-path", name) for name in _FILES))
_COMMIT = ("--revs-only", "HEAD", "HEAD^{tree}")
"""Says nothing of a commit that is not there (git-rev-parse(1))."""

_ATTRIBUTES = "core.attributesfile"
_USERS = "~/.config/git/attributes"


class Checkout:
    """A working tree and its repository.

    Args:
        root: of the working tree.
        git_folder: the git directory that all working trees of the repository share.
        files: what may be in it, by name, wherever this working tree has it.
        commit: what is checked out, None where there is none yet.
        tree: the id of its tree.
    """

    def __init__(
        self, root: Path, git_folder: Path, files: Mapping[str, Path], commit: str | None, tree: str | None
    ) -> None:
        self.root = root
        self.repository = Repository(root)
        self.files = files
        self.commit = commit
        self.tree = tree
        self._git_folder = git_folder

    @cached_property
    def filters(self) -> tuple[str, ...]:
        """The filters that the settings of the repository, or of a submodule of it, define."""
        keys = (key for checkout in self.whole() for key in (*checkout._settings, *checkout._stored_settings()))
        return tuple(sorted({key.partition(".")[2].rpartition(".")[0] for key in keys if key != _ATTRIBUTES}))

    @cached_property
    def submodules(self) -> tuple[Checkout, ...]:
        """Those that are checked out."""
        folders = (self.root / path for path in _submodule_paths(self.repository))
        found = ((folder, _try(folder)) for folder in folders if (folder / ".git").exists())
        # What is no repository by itself is for git a folder of the one around it.
        return tuple(inner for folder, inner in found if inner is not None and inner.root == folder.resolve())

    def whole(self) -> Iterator[Checkout]:
        """This one, and all submodules below it that are checked out."""
        yield self
        for inner in self.submodules:
            yield from inner.whole()

    @cached_property
    def attribute_files(self) -> tuple[Path, ...]:
        """Files outside of the working tree that say which attributes its paths have."""
        users = _users_attributes(self.repository) if _ATTRIBUTES in self._settings else expanded(_USERS)
        return self.files[_INFO], users

    @cached_property
    def _settings(self) -> tuple[str, ...]:
        return _settings_at(self.repository)

    def _stored_settings(self) -> Iterator[str]:
        """Settings of submodules that are not checked out: they are below `modules` of the git directory."""
        here = {inner._git_folder for inner in self.whole()}
        for file in sorted((self._git_folder / "modules").rglob("config")):
            if file.is_file() and file.parent not in here:
                yield from _settings_at(self.repository, "--file", str(file))


def checkout_around(folder: Path) -> Checkout | None:
    """The repository that a folder lies in; None where there is none, or no git.

    Raises:
        UserError: git refuses to read the repository, as it belongs to somebody else.
    """
    try:
        return _checkout(Repository(folder))
    except ForeignOwner as error:
        raise UserError(
            f"git refuses to read the repository around {folder}: {error}",
            remedy=f"git config --global --add safe.directory {folder}",
        ) from None
    except GitError:
        return None


def attribute_files(repository: Repository) -> tuple[Path, ...]:
    """The same of any repository."""
    return repository.path(_INFO), _users_attributes(repository)


def _users_attributes(repository: Repository) -> Path:
    return expanded(repository.ask("config", "--path", "--get", _ATTRIBUTES) or _USERS)


def _checkout(repository: Repository) -> Checkout:
    lines = repository.line("rev-parse", *(word for place in _PLACES for word in place), *_COMMIT).split("\n")
    last = max(number for number, line in enumerate(lines) if line.endswith(_INFO))
    places, ids = lines[: last + 1], lines[last + 1 :]
    if len(places) != len(_PLACES):  # a path with a line break in it
        places = [repository.line("rev-parse", *place) for place in _PLACES]
    root, git_folder, *files = (Path(repository.folder.absolute(), place) for place in places)
    commit, tree, *_ = (*ids, None, None)
    return Checkout(root, git_folder.resolve(), dict(zip(_FILES, files, strict=True)), commit, tree)


def _try(folder: Path) -> Checkout | None:
    try:
        return _checkout(Repository(folder))
    except GitError:
        return None


def _settings_at(repository: Repository, *place: str) -> tuple[str, ...]:
    """Names of settings, as `section.name.key`: of filters, and of the file of attributes."""
    words = (*place, "--includes", "-z", "--name-only", "--get-regexp", rf"^(filter\..*|{_ATTRIBUTES})$")
    return tuple(key for key in (repository.ask("config", *words) or "").split("\0") if key)


def _submodule_paths(repository: Repository) -> list[str]:
    try:
        index = repository.run("ls-files", "-z", "--stage")
    except GitError:
        return []
    if _SUBMODULE not in index:
        return []
    rows = (row.partition(b"\t") for row in index.split(b"\0") if row.startswith(_SUBMODULE))
    return [os.fsdecode(path) for _, _, path in rows]
