"""What the code package would be: how many files and bytes, which digest, and what would stay behind."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping
from glob import glob
from pathlib import Path
from typing import Any

from nemo_runspec.errors import UserError
from nemo_runspec.packaging.patterns import PATTERN, RELATIVE, listed, matched_files, measure
from nemo_runspec.planning.model import Package

_AUTO_GIT = frozenset({"slurm", "docker"})
_OPTIONS = "packager_"


def summarise_package(env: Mapping[str, Any], executor: str, folder: Path) -> Package:
    """The package of the repository around `folder`. Reads git, writes nothing. The commit is noted in any case.

    Without `packager`, Slurm and Docker jobs ship the git repository they are started from, if it is one.

    Raises:
        UserError: `packager = "git"` outside a git repository or in one without a commit; patterns that match nothing.
    """
    kind = env.get("packager")
    options = {
        k: v for k, v in env.items() if isinstance(k, str) and k.startswith(_OPTIONS) and v not in (None, [], "", {})
    }
    head = _head(folder)
    if kind is None:
        kind = "git" if executor in _AUTO_GIT and head else "none"
    makers = {"git": _git_package, "pattern": _pattern_package, "hybrid": _hybrid_package}
    return makers[kind](folder, head, options) if kind in makers else Package("none", commit=head)


def _git_package(folder: Path, head: str | None, options: dict[str, Any]) -> Package:
    if head is None:
        raise UserError(
            f'packager = "git" needs a git repository with a commit around {folder}',
            remedy='commit first, or choose packager = "none" or "pattern"',
        )
    root = Path(_git(folder, "rev-parse", "--show-toplevel") or folder)
    subpath = str(options.get("packager_subpath", "")).strip("/")
    tree = (_git(root, "rev-parse", f"HEAD:{subpath}") or "").strip()
    if not tree:
        raise UserError(f"packager_subpath '{subpath}' is not in the commit {head[:12]} of {root}")
    sizes = [
        int(row.split()[3]) for row in _records(root, "ls-tree", "-r", "-l", "-z", tree) if row.split()[1] == "blob"
    ]
    added = _added(root, options)
    uncommitted, untracked = (
        tuple(name for name in names if not (added and _is_added(root / name, added)))
        for names in _status(root, every_file=bool(added))
    )
    return Package("git", str(root), options, len(sizes), sum(sizes), tree, head, uncommitted, untracked)


def _pattern_package(folder: Path, head: str | None, options: dict[str, Any]) -> Package:
    files = matched_files(folder, options)
    size, digest = measure(files)
    return Package("pattern", str(folder), options, len(files), size, digest, head)


def _hybrid_package(folder: Path, head: str | None, options: dict[str, Any]) -> Package:
    """Each part in a folder of its own; the digest is over the parts' names and digests."""
    parts = options.get("packager_sub_packagers") or {}
    if not parts or not all(isinstance(part, Mapping) for part in parts.values()):
        raise UserError(
            'packager = "hybrid" needs packager_sub_packagers, a table of tables',
            remedy='packager_sub_packagers = { code = { packager = "git", subpath = "src" } }',
        )
    made = {name: _part(folder, head, name, part) for name, part in parts.items()}
    digest = hashlib.sha256("".join(f"{name}\0{part.digest}\n" for name, part in made.items()).encode()).hexdigest()
    return Package(
        "hybrid",
        str(folder),
        options,
        sum(part.files for part in made.values()),
        sum(part.bytes for part in made.values()),
        digest,
        head,
        tuple(dict.fromkeys(name for part in made.values() for name in part.uncommitted)),
        tuple(dict.fromkeys(name for part in made.values() for name in part.untracked)),
    )


def _part(folder: Path, head: str | None, name: str, part: Mapping[str, Any]) -> Package:
    options = {
        f"{_OPTIONS}{str(key).removeprefix(_OPTIONS)}": value for key, value in part.items() if key != "packager"
    }
    kind = part.get("packager", "pattern")
    if kind == "git":
        return _git_package(folder, head, options)
    if kind == "pattern":
        return _pattern_package(folder, head, options)
    raise UserError(f"packager_sub_packagers.{name}: packager must be git or pattern, not {kind!r}")


def _added(root: Path, options: Mapping[str, Any]) -> frozenset[str]:
    """Files and folders that packager_include_pattern adds to the commit, as they are now: what a shell makes of it."""
    patterns = listed(options.get(PATTERN) or [])
    folders = listed(options.get(RELATIVE) or ".")
    if len(folders) == 1:
        folders = folders * len(patterns)
    return frozenset(
        os.path.normpath(root / folder / name)
        for folder, pattern in zip(folders, patterns, strict=False)
        for name in glob(pattern, root_dir=root / folder)  # noqa: PTH207 (Path.glob refuses absolute patterns)
    )


def _is_added(path: Path, added: frozenset[str]) -> bool:
    """True for what NeMo-Run's `find … -type f` takes: a file that is there, or one of a folder that is named."""
    return path.exists() and not path.is_symlink() and any(str(p) in added for p in (path, *path.parents))


def _status(root: Path, *, every_file: bool) -> tuple[list[str], list[str]]:
    """Uncommitted and untracked paths; a folder with only untracked files is one of them unless all are asked for."""
    uncommitted: list[str] = []
    untracked: list[str] = []
    shown = "all" if every_file else "normal"
    rows = iter(_records(root, "status", "--porcelain=v1", "-z", f"--untracked-files={shown}"))
    for row in rows:
        (untracked if row.startswith("??") else uncommitted).append(row[3:])
        if row[0] in "RC":
            next(rows, None)
    return uncommitted, untracked


def _head(folder: Path) -> str | None:
    text = _git(folder, "rev-parse", "--verify", "--quiet", "HEAD")
    return text.strip() if text else None


def _records(folder: Path, *arguments: str) -> list[str]:
    return [row for row in (_git(folder, *arguments) or "").split("\0") if row]


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError:
        return None
    text = done.stdout.decode("utf-8", "surrogateescape")
    return (text if "-z" in arguments else text.rstrip("\n")) if done.returncode == 0 else None
