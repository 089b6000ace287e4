"""Files on a mount that are copies of S3 objects already: proved to be, and used where they are. Travels with jobs.

An object's etag is the MD5 of its content, or, where it came in N parts, the MD5 of their MD5s with `-N` behind it.
What fits no etag is not taken for a copy: services that encrypt have others.
"""

import hashlib
from pathlib import Path
from typing import Iterator, Sequence  # noqa: UP035  (Python 3.6)

from nemo_runspec.backends.cloud.storage.s3 import Object, part_size

_MIB = 1 << 20
_PARTS = tuple(size * _MIB for size in (8, 16, 5, 10, 15, 32, 50, 64, 100, 128, 256, 512, 1024))
"""Sizes of parts that clients use: Amazon's own (8 MiB, 16 MiB in newer ones), boto3, rclone, MinIO, s3cmd."""

_BLOCK = 1 << 22


def staged(roots: "Sequence[Path]", bucket: str, found: Object) -> "Path | None":
    """The file `ROOT/bucket/key` that is a copy of an object as it is now; None where none is."""
    for root in roots:
        file = root / bucket / found.key
        if ".." not in found.key.split("/") and is_copy(file, found):
            return file
    return None


def is_copy(file: Path, found: Object) -> bool:
    """True if a file has an object's size and content. All of it is read where the size fits."""
    try:
        if not file.is_file() or file.stat().st_size != found.size:
            return False
        digest, _, parts = found.etag.lower().partition("-")
        if not parts:
            return _md5(file) == digest
        return any(_of_parts(file, size) == digest for size in _sizes(found.size, int(parts)))
    except (OSError, ValueError):
        return False


def _sizes(size: int, parts: int) -> "Iterator[int]":
    """Part sizes by which so many bytes make so many parts."""
    likely = dict.fromkeys((part_size(size), *_PARTS, -(-size // parts)))
    return (each for each in likely if each > 0 and -(-size // each) == parts)


def _md5(file: Path) -> str:
    digest = hashlib.md5()
    with file.open("rb") as content:
        for block in iter(lambda: content.read(_BLOCK), b""):
            digest.update(block)
    return digest.hexdigest()


def _of_parts(file: Path, size: int) -> str:
    whole = hashlib.md5()
    with file.open("rb") as content:
        for part in iter(lambda: content.read(size), b""):
            whole.update(hashlib.md5(part).digest())
    return whole.hexdigest()
