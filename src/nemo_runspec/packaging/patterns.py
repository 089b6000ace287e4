"""What a `pattern` package holds: the files that patterns match, as they are now."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from glob import glob
from pathlib import Path
from typing import Any

from nemo_runspec.errors import UserError

PATTERN = "packager_include_pattern"
RELATIVE = "packager_relative_path"

_HASHED = 256_000_000
"""Bytes up to which a dry run reads contents for the digest; a larger package gets its digest when it is packed."""


def matched_files(root: Path, options: Mapping[str, Any]) -> dict[str, Path]:
    """Path in the package → file. `**` goes into folders; a folder that is matched brings its files; `.git` never goes.

    Raises:
        UserError: no pattern, patterns and folders of different number, or a pattern that matches no file.
    """
    patterns, folders = listed(options.get(PATTERN) or []), listed(options.get(RELATIVE) or ".")
    if not patterns:
        raise UserError('packager = "pattern" needs packager_include_pattern', remedy=f'{PATTERN} = "src/**/*.py"')
    folders = folders * len(patterns) if len(folders) == 1 else folders
    if len(folders) != len(patterns):
        raise UserError(
            f"{PATTERN} has {len(patterns)} patterns and {RELATIVE} {len(folders)} folders",
            remedy=f"give {RELATIVE} once, or once for each pattern",
        )
    found: dict[str, Path] = {}
    for pattern, folder in zip(patterns, folders, strict=True):
        base = Path(os.path.normpath(root / folder))
        files = {os.path.relpath(file, base): file for file in _files(base, pattern)}
        if not files:
            raise UserError(f"{PATTERN}: '{pattern}' matches no file below {base}")
        found.update(files)
    return dict(sorted(found.items()))


def measure(files: Mapping[str, Path]) -> tuple[int, str]:
    """Bytes before compression, and sha256 over paths and contents, '' for more than 256 MB.

    Raises:
        UserError: a file that cannot be read.
    """
    try:
        size = sum(file.stat().st_size for file in files.values())
        if size > _HASHED:
            return size, ""
        whole = hashlib.sha256()
        for path, file in files.items():
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            whole.update(f"{path}\0{content}\n".encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise UserError(f"cannot read {error.filename}: {error.strerror}", where=str(error.filename)) from None
    return size, whole.hexdigest()


def listed(value: Any) -> list[str]:
    """A string or a list of them as a list."""
    return [value] if isinstance(value, str) else [str(item) for item in value]


def _files(base: Path, pattern: str) -> Iterator[Path]:
    for name in glob(pattern, root_dir=base, recursive=True):  # noqa: PTH207 (Path.glob refuses absolute patterns)
        path = base / name
        inside = path.rglob("*") if path.is_dir() else (path,)
        yield from (p for p in inside if p.is_file() and ".git" not in p.parts)
