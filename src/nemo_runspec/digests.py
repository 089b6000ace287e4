"""Contents as blocks, and their SHA-256 digests: one meaning for whoever names, compares or sends a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

_BLOCK = 1 << 18


def blocks_of(source: bytes | Path) -> Iterator[bytes]:
    """A content: bytes as they are, a file in pieces of 256 KiB at most. Raises `OSError` where it cannot be read."""
    if isinstance(source, bytes):
        yield source
        return
    with source.open("rb") as stream:
        while block := stream.read(_BLOCK):
            yield block


def digest_of(source: bytes | Path) -> str:
    """SHA-256 of a content, in hexadecimal. Raises as `blocks_of`."""
    return digest_of_blocks(blocks_of(source))


def digest_of_blocks(blocks: Iterable[bytes]) -> str:
    """SHA-256 of a content in pieces, in hexadecimal."""
    digest = sha256()
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()


def digest_of_text(text: str) -> str:
    """SHA-256 of a text in UTF-8, in hexadecimal; of names of files that are no UTF-8, their own bytes."""
    return digest_of(text.encode("utf-8", "surrogateescape"))


def short_digest(text: str) -> str:
    """The first eight characters of a text's digest: enough to keep a few names apart."""
    return digest_of_text(text)[:8]
