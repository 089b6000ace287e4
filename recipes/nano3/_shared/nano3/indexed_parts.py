"""Writes parts of Megatron's indexed dataset, and joins them: as long as a dataset is, little of it is in memory.

A part is `PREFIX.bin`, the tokens, and `PREFIX.lengths`, the length of each document as i32.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from nano3.indexed import HEADER, LARGEST_SMALL_VOCABULARY, MAGIC, TYPE_CODES, VERSION

BLOCK = 1 << 22
HELD = 1 << 18
"""Tokens of a part that are in memory before they are written, about."""
BIN, LENGTHS, INDEX = ".bin", ".lengths", ".idx"


def type_code_of(vocabulary_size: int) -> int:
    """Megatron's code for the type of tokens."""
    return 8 if vocabulary_size < LARGEST_SMALL_VOCABULARY else 4


class PartWriter:
    """Appends documents to a part.

    Args:
        prefix: of its files.
        type_code: Megatron's, of tokens.
        end: the token that ends a document.
    """

    def __init__(self, prefix: Path, type_code: int, end: int) -> None:
        self._type, self._end = np.dtype(TYPE_CODES[type_code]), end
        self._held, self._held_lengths = array(self._type.char), array("i")
        self._tokens, self._lengths = _beside(prefix, BIN).open("wb"), _beside(prefix, LENGTHS).open("wb")
        self.documents = self.tokens = 0

    def append(self, document: list[int]) -> None:
        """Add a document and its end. Two bytes a token are held, or four: lists of numbers would fill the caches."""
        self._held.fromlist(document)
        self._held.append(self._end)
        self._held_lengths.append(len(document) + 1)
        if len(self._held) >= HELD:
            self._write()

    def _write(self) -> None:
        for held, kind, stream in (
            (self._held, self._type, self._tokens),
            (self._held_lengths, np.dtype(np.int32), self._lengths),
        ):
            stream.write(np.array(held, kind).tobytes())
        self.documents += len(self._held_lengths)
        self.tokens += len(self._held)
        del self._held[:], self._held_lengths[:]

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._write()
        for stream in (self._tokens, self._lengths):
            stream.flush()
            os.fsync(stream.fileno())
            stream.close()


def join(parts: Sequence[Path], prefix: Path, type_code: int) -> None:
    """Write `PREFIX.bin` and `PREFIX.idx` from parts, in their order."""
    with _beside(prefix, BIN).open("wb") as tokens:
        for part in parts:
            for block in _blocks(_beside(part, BIN)):
                tokens.write(block)
        tokens.flush()
        os.fsync(tokens.fileno())
    lengths = [_beside(part, LENGTHS) for part in parts]
    count = sum(path.stat().st_size for path in lengths) // np.dtype(np.int32).itemsize
    with _beside(prefix, INDEX).open("wb") as index:
        index.write(HEADER.pack(MAGIC, VERSION, type_code, count, count + 1))
        for path in lengths:
            for block in _blocks(path):
                index.write(block)
        for offsets in _offsets(lengths, np.dtype(TYPE_CODES[type_code]).itemsize):
            index.write(offsets.tobytes())
        for start in range(0, count + 1, BLOCK):
            index.write(np.arange(start, min(start + BLOCK, count + 1), dtype=np.int64).tobytes())
        index.flush()
        os.fsync(index.fileno())


def histogram_of(prefix: Path, type_code: int, vocabulary_size: int) -> npt.NDArray[np.int64]:
    """How often each token is in `PREFIX.bin`."""
    found = np.zeros(vocabulary_size, dtype=np.int64)
    for block in _blocks(_beside(prefix, BIN)):
        found += np.bincount(np.frombuffer(block, TYPE_CODES[type_code]), minlength=vocabulary_size)
    return found


def _offsets(lengths: Sequence[Path], size: int) -> Iterator[npt.NDArray[np.int64]]:
    """Where each document begins, in bytes."""
    start = 0
    for path in lengths:
        for block in _blocks(path):
            ends = start + np.cumsum(np.frombuffer(block, np.int32), dtype=np.int64) * size
            yield np.concatenate([np.full(1, start, np.int64), ends[:-1]])
            start = int(ends[-1])


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while block := stream.read(BLOCK):
            yield block


def _beside(prefix: Path, suffix: str) -> Path:
    return prefix.with_name(prefix.name + suffix)
