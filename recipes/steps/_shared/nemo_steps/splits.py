"""Sends a row to a split by a digest of its content, so that equal rows never lie on both sides."""

from __future__ import annotations

import hashlib


def share_of(text: str, seed: int) -> float:
    """A number from 0 up to 1, fixed by the text and the seed, evenly spread."""
    digest = hashlib.sha256(f"{seed}\n{text}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2.0**64


def split_of(text: str, seed: int, valid: float, test: float = 0.0) -> str:
    """`train`, `valid` or `test`.

    Args:
        valid: the share of rows that go to validation. `test`: likewise.
    """
    place = share_of(text, seed)
    if place < valid:
        return "valid"
    return "test" if place < valid + test else "train"
