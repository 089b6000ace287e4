"""What the code package would be: how many files and bytes, which digest, and what would stay behind."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nemo_runspec.errors import UserError
from nemo_runspec.packaging.contents import algorithm_of, contents_of
from nemo_runspec.packaging.git import GitError, Repository
from nemo_runspec.packaging.gitpart import head_of
from nemo_runspec.packaging.model import LINK, Contents, Entry, Unready
from nemo_runspec.packaging.options import DIRTY, PREFIX, Part, parts_of
from nemo_runspec.packaging.patterns import with_id
from nemo_runspec.packaging.said import names_in_words
from nemo_runspec.packaging.workbench import workbench
from nemo_runspec.planning.model import Package

_AUTO_GIT = frozenset({"slurm", "docker"})
_HASHED = 256_000_000
"""Bytes up to which a dry run reads files for the digest; a larger package gets its digest when it is packed."""


def summarise_package(env: Mapping[str, Any], executor: str, folder: Path) -> Package:
    """The package of the repository around `folder`. Reads, writes nothing. The commit is noted in any case.

    Without `packager`, Slurm and Docker jobs ship the git repository they are started from, if it is one. What is
    not there yet (a file that a pattern matches, a submodule) is one of the package's `problems`.

    Raises:
        UserError: `packager = "git"` outside a git repository or in one without a commit; options that make no sense.
    """
    kind = env.get("packager")
    around = head_of(folder) if kind or executor in _AUTO_GIT else _head_if_readable(folder)
    head = around[1] if around else None
    if kind is None:
        kind = "git" if executor in _AUTO_GIT and head else "none"
    if kind == "none":
        return Package("none", commit=head)
    package = Package(kind, str(around[0] if around and kind == "git" else folder), _options(env, kind), commit=head)
    try:
        return _summed_up(package)
    except Unready as error:
        return replace(package, problems=(_line(error),))
    except GitError as error:
        raise UserError(f"git fails in {package.root}: {error}", where=package.root) from None


def _options(env: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The keys that were set. `dirty` is one of them where there is a git part and it is not the default."""
    given = {
        k: v for k, v in env.items() if isinstance(k, str) and k.startswith(PREFIX) and v not in (None, [], "", {})
    }
    dirty = env.get(DIRTY) or "warn"
    return given | ({DIRTY: dirty} if dirty != "warn" and kind in ("git", "hybrid") else {})


def _summed_up(package: Package) -> Package:
    parts = parts_of(package.kind, package.options)
    if package.commit is None and any(part.kind == "git" for part in parts):
        missing = shutil.which("git") is None
        raise UserError(
            'packager = "git" needs git, which is not installed'
            if missing
            else f'packager = "git" needs a git repository with a commit around {package.root}',
            remedy='commit first, or choose packager = "none" or "pattern"',
        )
    with workbench() as bench:
        try:
            contents = _read(contents_of(package, bench, sizes=True), package.commit)
        except Unready as error:
            return _with_changes(replace(package, problems=(_line(error),)), parts, Contents())
    found = replace(
        package,
        files=contents.files,
        bytes=contents.bytes,
        digest=contents.digest(),
        pointers=tuple(contents.pointers),
    )
    return _with_changes(found, parts, contents)


def _line(error: UserError) -> str:
    return f"{error.what}: {error.remedy}" if error.remedy else error.what


def _read(contents: Contents, commit: str | None) -> Contents:
    """The contents with the ids of all files, unless there is more to read than a dry run may."""
    files = {path: entry for path, entry in contents.entries.items() if isinstance(entry.source, Path)}
    if sum(entry.size for entry in files.values() if entry.mode != LINK) > _HASHED:
        return contents
    algorithm = algorithm_of(commit)
    known: dict[str, Entry] = {path: with_id(entry, algorithm) for path, entry in files.items()}
    return replace(contents, entries={**contents.entries, **known})


def _with_changes(package: Package, parts: tuple[Part, ...], contents: Contents) -> Package:
    """The package with what is not committed: what stays behind, what travels, and what is refused for it."""
    sent = {str(entry.source) for entry in contents.entries.values() if isinstance(entry.source, Path)}
    behind: tuple[dict[str, None], dict[str, None]] = ({}, {})
    included: dict[str, None] = {}
    problems = list(package.problems)
    every_file = bool(sent)
    for part in (part for part in parts if part.kind == "git"):
        changes = _changes(package, part, sent, every_file)
        if part.dirty == "include":
            included.update(dict.fromkeys([*changes[0], *changes[1]]))
            continue
        for names, found in zip(behind, changes, strict=True):
            names.update(dict.fromkeys(found))
        if part.dirty == "refuse" and (changes[0] or changes[1]):
            problems.append(f'dirty = "refuse": {names_in_words("changed or new file", [*changes[0], *changes[1]])}')
    return replace(
        package,
        uncommitted=tuple(behind[0]),
        untracked=tuple(behind[1]),
        included=tuple(included),
        problems=tuple(dict.fromkeys(problems)),
    )


def _changes(package: Package, part: Part, sent: set[str], every_file: bool) -> tuple[list[str], list[str]]:
    """Uncommitted and untracked paths below the part's subpath, without those that its patterns add.

    A folder with only untracked files is one path, unless single files of it may travel.
    """
    root = Path(Repository(Path(package.root or ".")).line("rev-parse", "--show-toplevel"))
    shown = "all" if every_file else "normal"
    modules = "none" if part.submodules else "all"
    words = ["--porcelain=v1", "-z", f"--untracked-files={shown}", f"--ignore-submodules={modules}"]
    rows = iter(Repository(root).records("status", *words, "--", part.subpath or "."))
    uncommitted: list[str] = []
    untracked: list[str] = []
    for row in rows:
        name = row[3:]
        if str(root / name) not in sent:
            (untracked if row.startswith("??") else uncommitted).append(name)
        if row[0] in "RC":
            next(rows, None)
    return uncommitted, untracked


def _head_if_readable(folder: Path) -> tuple[Path, str] | None:
    """The commit of a job that does not ship it: only noted."""
    try:
        return head_of(folder)
    except UserError:
        return None
