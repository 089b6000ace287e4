"""The contents of a package while it is put together: git trees at places of it, files, one entry for every path."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from nemo_runspec.errors import UserError
from nemo_runspec.packaging.git import Repository

LINK, FOLDER = "120000", "040000"
"""Modes as git writes them. A folder is an entry only where it is empty: a submodule that stays behind."""


class Unready(UserError):
    """Something that a package needs is not there yet; a dry run says so and goes on, a submission does not."""


@dataclass(frozen=True, slots=True)
class GitTree:
    """A tree of a repository (`treeish`: a commit or a tree) at a place of the package: `prefix` is '' or `sub/`."""

    repository: Repository
    treeish: str
    prefix: str = ""


class PackageEntry(NamedTuple):
    """One path of the package.

    `mode` is git's, with the permissions a file really has; `id` is git's id of the content, '' while it has not
    been read; `size` in bytes; `source` is the tree or the file it comes from.
    """

    mode: str
    id: str
    size: int
    source: GitTree | Path


@dataclass
class Contents:
    """Everything that travels.

    Args:
        entries: path in the package → entry.
        trees: the git trees, in order, each with the paths that something else took the place of.
        tree: git's tree id where the package is exactly that tree, else ''.
        pointers: files of Git LFS of which only the pointer travels.
    """

    entries: dict[str, PackageEntry] = field(default_factory=dict)
    trees: dict[GitTree, set[str]] = field(default_factory=dict)
    tree: str = ""
    pointers: list[str] = field(default_factory=list)

    @property
    def files(self) -> int:
        """How many files and links."""
        return sum(entry.mode != FOLDER for entry in self.entries.values())

    @property
    def bytes(self) -> int:
        """Their size before compression."""
        return sum(entry.size for entry in self.entries.values())

    def digest(self) -> str:
        """git's tree id where there is one, else sha256 over modes, ids of contents and paths; '' if one is not known.

        The ids are git's own (sha1 or sha256 over the content): what is in a commit need not be read again.
        """
        if self.tree or not all(entry.id or entry.mode == FOLDER for entry in self.entries.values()):
            return self.tree
        whole = hashlib.sha256()
        for path, entry in sorted(self.entries.items()):
            whole.update(f"{entry.mode} {entry.id}\t{path}\0".encode("utf-8", "surrogateescape"))
        return whole.hexdigest()
