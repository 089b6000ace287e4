"""Looks at an input file once, before it is cut: its digest, and how many rows it has, counted by other means than the
reader's, so that what is read can be held against it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nano3 import tables
from nano3.corpus import is_cut
from nano3.files import sha256_of

BLOCK = 1 << 20


@dataclass(frozen=True)
class Input:
    """A file. `rows` is None where they cannot be counted without unpacking all of it (`.gz`)."""

    name: str
    sha256: str
    rows: int | None


def look_at(path: Path, separator: str | None = None) -> Input:
    """Read a file, once, in memory that does not depend on its size.

    Args:
        separator: of the documents in a text file.
    """
    if path.suffix == ".gz":
        return Input(path.name, sha256_of(path), None)
    if tables.is_table(path.name):
        return Input(path.name, sha256_of(path), tables.count_rows(path))
    counter: Lines | Parts = Lines() if is_cut(path) else Parts(separator)
    digest = hashlib.sha256()
    for block in _blocks(path):
        digest.update(block)
        counter.add(block)
    return Input(path.name, digest.hexdigest(), counter.rows)


class Lines:
    """Counts lines that are not blank, whatever ends them."""

    def __init__(self) -> None:
        self.rows, self._is_counted = 0, False

    def add(self, block: bytes) -> None:
        """The next bytes."""
        lines = block.replace(b"\r", b"\n").split(b"\n")
        filled = [_is_filled(line) for line in lines]
        self.rows += sum(filled) - (self._is_counted and filled[0])  # it began in the block before
        self._is_counted = filled[-1] or (len(lines) == 1 and self._is_counted)


class Parts:
    """Counts the parts of a text between separators; without one, the text is one."""

    def __init__(self, separator: str | None) -> None:
        self.rows, self._separator, self._held = 1, (separator or "").encode(), b""

    def add(self, block: bytes) -> None:
        """The next bytes."""
        if self._separator:
            *before, last = (self._held + block).split(self._separator)
            self.rows += len(before)
            self._held = last[-len(self._separator) :]


def _is_filled(line: bytes) -> bool:
    return line[:1] == b"{" or bool(line.decode("utf-8", "replace").strip())


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while block := stream.read(BLOCK):
            yield block
