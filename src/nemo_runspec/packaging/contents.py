"""All parts of a package put together: the same path twice is one file, or an error that names both parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from nemo_runspec.errors import UserError
from nemo_runspec.packaging.git_scratch import GitScratch
from nemo_runspec.packaging.gitpart import git_contents
from nemo_runspec.packaging.model import FOLDER, Contents, GitTree, PackageEntry
from nemo_runspec.packaging.options import PackagePart, parts_of
from nemo_runspec.packaging.patterns import entry_of, matched_files, with_id
from nemo_runspec.plans.model import Package

Clash = Callable[[str, PackageEntry, PackageEntry], None]
"""Called with a path that two parts bring with different contents; raises unless the second may win."""


def contents_of(package: Package, scratch: GitScratch, *, sizes: bool = False) -> Contents:
    """What a package holds now.

    Args:
        package: its `kind`, `root`, `options` and `commit`.
        sizes: whether the sizes of files in git are wanted.

    Raises:
        UserError: a commit or a file that is gone, two parts with the same path and different contents.
        Unready: a pattern that matches nothing, a submodule that is not here.
    """
    parts = parts_of(package.kind, package.options)
    root, commit = Path(package.root or "."), package.commit
    whole = _part_contents(parts[0], root, commit, scratch, sizes)
    owner = dict.fromkeys(whole.entries, parts[0].label)
    for part in parts[1:]:
        more = _part_contents(part, root, commit, scratch, sizes)
        _join(whole, more, commit, _refusal(owner, part.label))
        for path in more.entries:
            owner.setdefault(path, part.label)
    if len(parts) > 1 or parts[0].kind != "git" or parts[0].patterns:
        _refuse_files_with_something_below(whole, owner)
    return whole


def algorithm_of(commit: str | None) -> str:
    """The hash that stands for contents: the repository's own where there is one, so that its ids can be compared."""
    return "sha1" if commit and len(commit) == 40 else "sha256"


def _part_contents(part: PackagePart, root: Path, commit: str | None, scratch: GitScratch, sizes: bool) -> Contents:
    files = matched_files(root, part.patterns) if part.patterns else {}
    added = Contents({part.prefix + path: entry_of(file) for path, file in files.items()})
    if part.kind != "git":
        return added
    if commit is None:
        raise UserError(
            f'packager = "git" needs a git repository with a commit around {root}',
            remedy='commit first, or choose packager = "none" or "pattern"',
        )
    found = git_contents(part, root, commit, scratch, sizes=sizes)
    _join(found, added, commit, lambda path, old, new: None)
    return found


def _join(whole: Contents, more: Contents, commit: str | None, clash: Clash) -> None:
    """Adds `more`. A path that is there already keeps its entry where the contents are the same."""
    algorithm = algorithm_of(commit)
    both = [path for path in more.entries if path in whole.entries]
    kept: set[str] = set()
    for path in both:
        old, new = with_id(whole.entries[path], algorithm), with_id(more.entries[path], algorithm)
        if _same(old, new):
            kept.add(path)
            _drop(more, path, new)
        else:
            clash(path, old, new)
            _drop(whole, path, old)
    for tree, dropped in more.trees.items():
        whole.trees.setdefault(tree, dropped)
    whole.entries.update({path: entry for path, entry in more.entries.items() if path not in kept})
    whole.pointers += [path for path in more.pointers if path not in kept]
    whole.pointers = [path for path in whole.pointers if isinstance(whole.entries[path].source, GitTree)]
    whole.tree = whole.tree if not more.entries else ""


def _same(old: PackageEntry, new: PackageEntry) -> bool:
    """The same content, and both links, both programs or neither."""
    return (old.id, _nature(old.mode)) == (new.id, _nature(new.mode))


def _nature(mode: str) -> str:
    return f"{mode[:3]}{int(mode[3:], 8) & 0o100}"


def _drop(contents: Contents, path: str, entry: PackageEntry) -> None:
    if isinstance(entry.source, GitTree) and entry.source in contents.trees:
        contents.trees[entry.source].add(path.removeprefix(entry.source.prefix))


def _refusal(owner: dict[str, str], label: str) -> Clash:
    def refuse(path: str, old: PackageEntry, new: PackageEntry) -> None:
        if owner[path] == label:
            return
        raise UserError(
            f"{owner[path]} and {label} both bring {path!r}, with different contents",
            remedy='give one of them another folder: merge = "folder"',
        )

    return refuse


def _refuse_files_with_something_below(whole: Contents, owner: dict[str, str]) -> None:
    """A path cannot be a file of one part and a folder of another."""
    for path in _folders(whole.entries):
        entry = whole.entries.get(path)
        if entry is not None and entry.mode != FOLDER:
            raise UserError(
                f"{owner.get(path, 'the package')} brings {path!r}, and something else files below it",
                remedy="change packager_relative_path or merge so that they do not meet",
            )


def _folders(paths: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for path in paths:
        above = path.rpartition("/")[0]
        while above and above not in found:
            found.add(above)
            above = above.rpartition("/")[0]
    return found
