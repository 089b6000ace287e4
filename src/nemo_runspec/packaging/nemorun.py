"""NeMo-Run packagers of a code package: its own where it packs what was planned, else one that gives our archive.

Seen in NeMo-Run 0.11.1 (`core/packaging/`): `GitArchivePackager` always unpacks the whole tree into the user's
repository and packs it again there, takes submodules as they are checked out, and breaks at spaces; `PatternPackager`
leaves links out, takes `.git` along, does not know `**`, puts names into a shell as they are, and calls an empty
archive a success.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from glob import glob
from pathlib import Path
from typing import Any

from nemo_runspec.errors import UserError
from nemo_runspec.packaging.options import PackagePart, parts_of, without_prefix
from nemo_runspec.packaging.pack import pack
from nemo_runspec.plans.model import Package

_PLAIN = re.compile(r"/?\w[\w./+=,@-]*")
_PLAIN_PATTERN = re.compile(r"/?[\w*][\w./+=,@*?-]*")
_KINDS = ("none", "git", "pattern", "hybrid")


def packager_of(package: Package) -> Any:
    """The packager for an executor of NeMo-Run.

    Raises:
        UserError: options that make no sense, or are missing.
    """
    import nemo_run

    if package.kind not in _KINDS:
        raise UserError(f"packager must be one of {', '.join(_KINDS)}, not {package.kind!r}")
    if package.kind == "none":
        return nemo_run.Packager()
    parts, root = parts_of(package.kind, package.options), Path(package.root or ".")
    if not all(_is_right_for(part, root) for part in parts) or not _can_be_joined(parts):
        return _archive_packager()(stored=json.dumps(asdict(package)))
    made = {part.name: _pattern_packager(part, root) for part in parts}
    if package.kind == "pattern":
        return made[""]
    at_root = bool(without_prefix(package.options).get("extract_at_root"))
    return nemo_run.HybridPackager(sub_packagers=made, extract_at_root=at_root)


def archive_for(stored: str, job_dir: str, name: str) -> str:
    """Puts the archive of a stored package into a job's directory, under the name that NeMo-Run looks for.

    Raises:
        UserError: as `pack` does.
    """
    target = Path(job_dir) / f"{name}.tar.gz"
    if not target.exists():
        facts: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in json.loads(stored).items()
        }
        archive = pack(Package(**facts), lambda line: None).archive
        assert archive is not None, "a package of kind none has NeMo-Run's own packager"
        _place(archive, target)
    return str(target)


def __getattr__(name: str) -> Any:
    """`ArchivePackager`, made when it is first asked for: NeMo-Run, its base class, takes three seconds to import."""
    if name == "ArchivePackager":
        return _archive_packager()
    raise AttributeError(name)


@lru_cache(maxsize=1)
def _archive_packager() -> Any:
    import nemo_run

    @dataclass(kw_only=True)
    class ArchivePackager(nemo_run.Packager):  # type: ignore[misc]  # NeMo-Run is not typed
        """Gives NeMo-Run the archive that nemotron makes. `stored`: the package of the plan, as JSON."""

        stored: str

        def package(self, path: Path, job_dir: str, name: str) -> str:
            return archive_for(self.stored, job_dir, name)

    ArchivePackager.__qualname__ = "ArchivePackager"  # found again by this name when an executor is stored
    return ArchivePackager


def _place(archive: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with suppress(OSError):
        os.link(archive, target)
        return
    descriptor, name = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=target.parent)
    os.close(descriptor)
    shutil.copyfile(archive, name)
    Path(name).replace(target)


def _is_right_for(part: PackagePart, root: Path) -> bool:
    """True where NeMo-Run packs what we would: files with plain names that plain patterns match, and no links."""
    if part.kind != "pattern" or not _all_plain([str(root), *(folder for _, folder in part.patterns)]):
        return False
    return all(_is_plain_match(os.path.normpath(root / folder), pattern) for pattern, folder in part.patterns)


def _is_plain_match(base: str, pattern: str) -> bool:
    if not _PLAIN_PATTERN.fullmatch(pattern) or "**" in pattern or ".." in pattern.split("/"):
        return False
    names = glob(pattern, root_dir=base)  # noqa: PTH207 (Path.glob refuses absolute patterns)
    paths = [Path(base, name) for name in names]
    inside = all(Path(os.path.normpath(path)).is_relative_to(base) for path in paths)
    return bool(paths) and inside and _all_plain(names) and all(p.is_file() and not p.is_symlink() for p in paths)


def _all_plain(names: Iterable[str]) -> bool:
    return all(name == "." or _PLAIN.fullmatch(name) for name in names)


def _can_be_joined(parts: tuple[PackagePart, ...]) -> bool:
    """NeMo-Run's hybrid puts each part into a folder of its name, or all at the root, where the last file wins."""
    return len(parts) == 1 or all(part.prefix == f"{part.name}/" and _all_plain([part.name]) for part in parts)


def _pattern_packager(part: PackagePart, root: Path) -> Any:
    from nemo_run import PatternPackager

    folders = [os.path.normpath(root / folder) for _, folder in part.patterns]
    patterns = [os.path.join(base, pattern) for base, (pattern, _) in zip(folders, part.patterns, strict=True)]  # noqa: PTH118
    return PatternPackager(include_pattern=patterns, relative_path=folders)
