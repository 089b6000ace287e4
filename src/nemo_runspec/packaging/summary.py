"""Summarises the code package to be: how many files and bytes, which digest, and what would stay behind."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from nemo_runspec.backends import get_backend
from nemo_runspec.errors import UserError
from nemo_runspec.packaging.ahead import Ahead
from nemo_runspec.packaging.changes import Changes, bundled_changes, changes_of, has_files_below
from nemo_runspec.packaging.checkout import Checkout, checkout_around
from nemo_runspec.packaging.contents import algorithm_of, contents_of
from nemo_runspec.packaging.git import GitError, inert
from nemo_runspec.packaging.git_scratch import git_scratch
from nemo_runspec.packaging.messages import names_in_words
from nemo_runspec.packaging.model import LINK, Contents, PackageEntry, Unready
from nemo_runspec.packaging.options import PackagePart, has_git, parts_of, set_options
from nemo_runspec.packaging.patterns import with_id
from nemo_runspec.packaging.project_context import ProjectContext
from nemo_runspec.plans.model import Package, PackageProblem

_HASHED = 256_000_000
"""Bytes up to which a dry run reads files for the digest; a larger package gets its digest when it is packed."""

Begun = Mapping[PackagePart, Ahead[Changes]]
"""Changes below the parts' folders, new folders named as one, which are looked for already."""


def summarise_package(env: Mapping[str, Any], executor: str, context: ProjectContext) -> Package:
    """The package of the project that a plan is made in. Reads, writes nothing, and runs nothing of the repository.

    The commit is noted in any case.

    Without `packager`, a backend may ship the git repository that the job is started from (`ships_repository`), if it
    is one. What is not there yet (a file that a pattern matches, a submodule) is one of the package's `problems`.

    Raises:
        UserError: `packager = "git"` outside a git repository or in one without a commit; options that make no sense.
    """
    kind = env.get("packager") or ("git" if get_backend(executor).ships_repository else None)
    around = _checkout(context.folder, kind is not None)
    if kind is None or (not env.get("packager") and (around is None or around.commit is None)):
        kind = "none"
    if kind == "none" and (around is None or not around.commit or not has_files_below(context.bundle, around.root)):
        return Package("none", commit=around.commit if around else None)
    with inert(lambda: around.filters if around else ()) as filters:
        package = _summarised(env, kind, context, around)
    return replace(package, filters=filters) if has_git(package.kind, package.options) else package


def _summarised(env: Mapping[str, Any], kind: str, context: ProjectContext, around: Checkout | None) -> Package:
    commit = around.commit if around else None
    bundled = bundled_changes(context.bundle, around.root) if around and commit else ()
    if kind == "none":
        return Package("none", commit=commit, bundled=bundled)
    root = str(context.project_root(around.root if around else None))
    package = Package(kind, root, set_options(env, kind), commit=commit, bundled=bundled)
    try:
        return _summed_up(package, context, around)
    except Unready as error:
        return replace(package, problems=(_problem(error),))
    except GitError as error:
        raise UserError(f"git fails in {package.root}: {error}", where=package.root) from None


def _summed_up(package: Package, context: ProjectContext, around: Checkout | None) -> Package:
    parts = parts_of(package.kind, package.options)
    if package.commit is None and any(part.kind == "git" for part in parts):
        raise _no_commit(package)
    begun = _begin_changes(package, parts)
    with git_scratch(around) as scratch:
        try:
            contents = _read(contents_of(package, scratch, sizes=True), package.commit)
        except Unready as error:
            unready = replace(package, problems=(_problem(error),))
            return _with_changes(unready, parts, _Counting(unready, context, Contents(), begun))
    found = replace(
        package,
        files=contents.files,
        bytes=contents.bytes,
        digest=contents.digest(),
        pointers=tuple(contents.pointers),
    )
    return _with_changes(found, parts, _Counting(found, context, contents, begun))


def _begin_changes(package: Package, parts: tuple[PackagePart, ...]) -> Begun:
    """Looks for changes while the commit is read, unless files that are added decide how closely it is looked."""
    if any(part.patterns for part in parts):
        return {}
    root = Path(package.root or ".")
    return {part: Ahead(partial(_changes, root, part, every_file=False)) for part in parts if part.kind == "git"}


def _changes(root: Path, part: PackagePart, *, every_file: bool) -> Changes:
    return changes_of(root, part.subpath, submodules=part.submodules, every_file=every_file)


def _no_commit(package: Package) -> UserError:
    missing = shutil.which("git") is None
    return UserError(
        'packager = "git" needs git, which is not installed'
        if missing
        else f'packager = "git" needs a git repository with a commit around {package.root}',
        remedy='commit first, or choose packager = "none" or "pattern"',
    )


def _problem(error: UserError) -> PackageProblem:
    return PackageProblem(error.what, error.remedy or "")


def _read(contents: Contents, commit: str | None) -> Contents:
    """The contents with the ids of all files, unless there is more to read than a dry run may."""
    files = {path: entry for path, entry in contents.entries.items() if isinstance(entry.source, Path)}
    if sum(entry.size for entry in files.values() if entry.mode != LINK) > _HASHED:
        return contents
    algorithm = algorithm_of(commit)
    known: dict[str, PackageEntry] = {path: with_id(entry, algorithm) for path, entry in files.items()}
    return replace(contents, entries={**contents.entries, **known})


def _with_changes(package: Package, parts: tuple[PackagePart, ...], counts: _Counting) -> Package:
    """The package with what is not committed: what stays behind, what travels, and what is refused for it."""
    uncommitted: dict[str, None] = {}
    untracked: dict[str, None] = {}
    included: dict[str, None] = {}
    refused: dict[str, None] = {}
    for part in (part for part in parts if part.kind == "git"):
        if part.dirty == "include":
            included.update(dict.fromkeys(counts.changes(part).all))
            continue
        behind = counts.left_behind(part)
        uncommitted.update(dict.fromkeys(behind.uncommitted))
        untracked.update(dict.fromkeys(behind.untracked))
        if part.dirty == "refuse":
            refused.update(dict.fromkeys((*behind.all, *package.bundled)))
    return replace(
        package,
        uncommitted=tuple(uncommitted),
        untracked=tuple(untracked),
        included=tuple(included),
        problems=(*package.problems, *_refusal(tuple(refused))),
    )


def _refusal(names: tuple[str, ...]) -> tuple[PackageProblem, ...]:
    if not names:
        return ()
    what = f'dirty = "refuse": {names_in_words("changed or new file", names)}'
    return (PackageProblem(what, "commit or stash them, or let them be for once: run.env.dirty=warn"),)


class _Counting:
    """Which changes count: not the files that travel as they are now, and not those that the plan was made of."""

    def __init__(self, package: Package, context: ProjectContext, contents: Contents, begun: Begun) -> None:
        self.root = Path(package.root or ".")
        entries = contents.entries.values()
        self.sent = {str(entry.source) for entry in entries if isinstance(entry.source, Path)}
        self.begun = begun
        self.apart = {*package.bundled, *_inside(self.root, context.env_file, context.config)}

    def changes(self, part: PackagePart, *, every_file: bool = False) -> Changes:
        """Everything that is not committed below the part's folder."""
        every_file = every_file or bool(self.sent)
        if not every_file and part in self.begun:
            return self.begun[part].result()
        return _changes(self.root, part, every_file=every_file)

    def left_behind(self, part: PackagePart) -> Changes:
        """The same without what travels all the same, or has no need to."""
        found = self.changes(part)
        folders = tuple(name for name in found.untracked if name.endswith("/"))
        if any(name.startswith(folders) for name in self.apart):
            found = self.changes(part, every_file=True)
        return Changes(self._counted(found.uncommitted), self._counted(found.untracked))

    def _counted(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names if name not in self.apart and str(self.root / name) not in self.sent)


def _inside(root: Path, *files: Path | None) -> set[str]:
    """Those of the files that lie below a folder, as paths from there; of a link both itself and what it points to."""
    named = {Path(path) for file in files if file for path in (os.path.abspath(file), os.path.realpath(file))}  # noqa: PTH100
    return {path.relative_to(root).as_posix() for path in named if path.is_relative_to(root)}


def _checkout(folder: Path, matters: bool) -> Checkout | None:
    """The repository around a folder. One that cannot be read matters only to a job that ships it."""
    try:
        return checkout_around(folder)
    except UserError:
        if matters:
            raise
        return None
