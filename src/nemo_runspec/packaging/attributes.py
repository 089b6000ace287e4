"""Effects of `.gitattributes` on a package: paths that `git archive` leaves out or changes, files of Git LFS."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nemo_runspec.packaging.git import GitError, joined, split
from nemo_runspec.packaging.git_scratch import GitScratch
from nemo_runspec.packaging.model import GitTree, PackageEntry
from nemo_runspec.regular import read_regular

_WORDS = (b"export-", b"lfs")
_FILE = ".gitattributes"
_ASKED = ("export-ignore", "export-subst", "filter")


@dataclass(frozen=True, slots=True)
class Special:
    """Paths of a tree that do not travel as they are committed.

    Args:
        left_out: `export-ignore`; a folder stands for everything below it.
        rewritten: `export-subst`.
        pointers: files of Git LFS.
    """

    left_out: frozenset[str] = frozenset()
    rewritten: frozenset[str] = frozenset()
    pointers: frozenset[str] = frozenset()


def special_paths(tree: GitTree, entries: Mapping[str, PackageEntry], scratch: GitScratch) -> Special:
    """The special paths of a tree. git is asked only where an attribute file speaks of them."""
    if not _mentioned(tree, entries, scratch):
        return Special()
    paths = entries.keys()
    folders = {f"{above}/" for path in paths for above in _above(path)}
    repository = scratch.index_of(tree)
    given = joined([*paths, *folders])
    rows = split(repository.run("check-attr", "--cached", "-z", "--stdin", *_ASKED, given=given))
    found: dict[str, set[str]] = {"export-ignore": set(), "export-subst": set(), "lfs": set()}
    for path, name, value in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
        key = value if name == "filter" else name
        if key in found and value not in ("unspecified", "unset"):
            found[key].add(path)
    left_out = {path for path in paths if _is_left_out(path, found["export-ignore"])}
    return Special(frozenset(left_out), frozenset(found["export-subst"]), frozenset(found["lfs"]))


def _is_left_out(path: str, ignored: Collection[str]) -> bool:
    return path in ignored or any(f"{above}/" in ignored for above in _above(path))


def _above(path: str) -> list[str]:
    """The folders a path lies in."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def _mentioned(tree: GitTree, entries: Mapping[str, PackageEntry], scratch: GitScratch) -> bool:
    own = [entry.id for path, entry in entries.items() if path.endswith(_FILE) and path.rpartition("/")[2] == _FILE]
    texts = (_contents(tree, own), *map(_file, scratch.attribute_files(tree.repository)))
    return any(word in text for word in _WORDS for text in texts)


def _contents(tree: GitTree, ids: Sequence[str]) -> bytes:
    """All that git says of these objects, their contents among it (git-cat-file(1), "BATCH OUTPUT")."""
    try:
        return tree.repository.run("cat-file", "--batch", given="\n".join(ids).encode()) if ids else b""
    except GitError:
        return b""


def _file(path: Path) -> bytes:
    try:
        return read_regular(path, follow=True)
    except OSError:
        return b""
