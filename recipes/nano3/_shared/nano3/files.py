"""Writes files and folders so that a reader sees all of them or nothing."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

PARTIAL = ".partial-"


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def write_text_atomic(path: Path, text: str) -> None:
    """Write a whole text file, or leave what was there."""
    temporary = path.with_name(f"{PARTIAL}{path.name}")
    with temporary.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)


@contextlib.contextmanager
def staging(folder: Path, name: str) -> Iterator[Path]:
    """A new folder inside `folder` to build in, gone afterwards; older ones left by a crash are cleared away too."""
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob(f"{PARTIAL}{name}-*"):
        shutil.rmtree(stale, ignore_errors=True)
    temporary = Path(tempfile.mkdtemp(prefix=f"{PARTIAL}{name}-", dir=folder))
    temporary.chmod(0o755)
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def publish_folder(built: Path, final: Path) -> None:
    """Put the folder `built` in the place of `final`, on the same file system."""
    if not final.exists():
        built.replace(final)
        return
    old = final.with_name(f"{PARTIAL}old-{final.name}")
    shutil.rmtree(old, ignore_errors=True)
    final.replace(old)
    built.replace(final)
    shutil.rmtree(old)
