"""The git part of a package: exactly a commit with its submodules as recorded, or the working tree as it is."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from nemo_runspec.errors import UserError
from nemo_runspec.packaging.attributes import special_paths
from nemo_runspec.packaging.git import Repository
from nemo_runspec.packaging.git_scratch import GitScratch
from nemo_runspec.packaging.model import FOLDER, Contents, GitTree, PackageEntry
from nemo_runspec.packaging.options import PackagePart
from nemo_runspec.packaging.submodules import checked_out, submodule

_GITLINK = "160000"


def git_contents(part: PackagePart, root: Path, commit: str, scratch: GitScratch, *, sizes: bool) -> Contents:
    """What the part brings of the repository at `root`.

    Args:
        commit: what travels unless the part includes what is not committed.
        sizes: whether the files' sizes are wanted; git has to look at every object for them.

    Raises:
        UserError: the commit or the subpath is gone.
        Unready: a submodule that is not here, or not at its recorded commit.
    """
    repository = Repository(root)
    if scratch.tree_of(repository, commit) is None:
        raise UserError(f"commit {commit[:12]} is not in {root}", where=str(root), remedy="make the plan again")
    whole = _chosen_tree(repository, commit, scratch, include=part.dirty == "include")
    tree = _tree_at(whole, part.subpath, commit, scratch)
    listing = _Listing(part, scratch, sizes)
    # A commit, where it is one, gives its time to the files of the archive.
    listing.add(replace(whole, treeish=tree if part.subpath else whole.treeish, prefix=part.prefix), whole.treeish)
    listing.contents.tree = tree if listing.exact and not part.patterns else ""
    return listing.contents


def _tree_at(whole: GitTree, subpath: str, commit: str, scratch: GitScratch) -> str:
    """The id of the tree of a folder."""
    if not subpath:
        return whole.treeish if whole.treeish != commit else scratch.tree_of(whole.repository, commit) or ""
    repository = whole.repository
    found = repository.ask("rev-parse", "--verify", "--quiet", f"{whole.treeish}:{subpath}")
    if not found or repository.ask("cat-file", "-t", found) != "tree":
        raise UserError(
            f"packager_subpath '{subpath}' is no folder of the commit {commit[:12]} of {repository.folder}",
            remedy="name a folder of the commit; a submodule, or a folder in one, cannot be packaged alone",
        )
    return found


def _chosen_tree(repository: Repository, commit: str, scratch: GitScratch, *, include: bool) -> GitTree:
    """The commit, or the working tree as it is now where that is something else and wanted."""
    if not include:
        return GitTree(repository, commit)
    now = scratch.as_it_is(repository)
    same = now.treeish == scratch.tree_of(repository, commit)
    return GitTree(repository, commit) if same else now


class _Listing:
    """Goes through a tree and the submodules in it."""

    def __init__(self, part: PackagePart, scratch: GitScratch, sizes: bool) -> None:
        self.part = part
        self.scratch = scratch
        self.sizes = ("-l",) if sizes else ()
        self.contents = Contents()
        self.exact = True

    def add(self, tree: GitTree, whole: str) -> None:
        """Adds a tree: a repository's `whole` one, or at the top the folder of it that the part names."""
        links: dict[str, str] = {}
        entries: dict[str, PackageEntry] = {}
        rows = tree.repository.run("ls-tree", "-r", "-z", *self.sizes, tree.treeish).split(b"\0")
        for row in filter(None, rows):
            facts, _, name = row.partition(b"\t")
            mode, _, identity, *size = facts.decode().split()
            path = os.fsdecode(name)
            if mode == _GITLINK:
                links[path] = identity
            else:
                # Of a partial clone's file that was never fetched git says BAD instead of its size.
                entries[path] = PackageEntry(mode, identity, int(size[0]) if size and size[0].isdecimal() else 0, tree)
        self._put(tree, entries, links)
        for path, commit in links.items():
            self._add_submodule(tree, whole, path, commit)

    def _put(self, tree: GitTree, entries: dict[str, PackageEntry], links: dict[str, str]) -> None:
        special = special_paths(tree, entries, self.scratch)
        for path in special.left_out:
            del entries[path]
        for path in special.rewritten & entries.keys():
            entries[path] = entries[path]._replace(id=f"{entries[path].id}@{tree.treeish}")
        self.exact = self.exact and not (special.left_out or special.rewritten or links)
        self.contents.trees[tree] = set()
        self.contents.pointers += [tree.prefix + path for path in sorted(special.pointers & entries.keys())]
        self.contents.entries.update({tree.prefix + path: entry for path, entry in entries.items()})

    def _add_submodule(self, tree: GitTree, whole: str, path: str, commit: str) -> None:
        place = f"{tree.prefix}{path}"
        if not self.part.submodules:
            self.contents.entries[place] = PackageEntry(FOLDER, "", 0, tree)
            return
        inside = path if tree.treeish == whole or not self.part.subpath else f"{self.part.subpath}/{path}"
        here = checked_out(tree.repository, inside)
        if self.part.dirty == "include" and here is not None:
            found = _chosen_tree(here, commit, self.scratch, include=True)
        else:
            found = GitTree(submodule(tree.repository, whole, inside, commit, self.scratch), commit)
        self.add(replace(found, prefix=f"{place}/"), found.treeish)
