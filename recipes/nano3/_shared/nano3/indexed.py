"""Reads and writes Megatron's indexed dataset: token ids in `PREFIX.bin`, where each document lies in `PREFIX.idx`.

The layout, little endian, as megatron-core 0.16.1 reads it (`megatron/core/datasets/indexed_dataset.py`):
9 bytes magic, u64 version 1, u8 type code, u64 sequences, u64 document boundaries, then per sequence an i32 length and
an i64 byte offset, then the i64 document boundaries, which begin with 0. Here each document is one sequence.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

MAGIC = b"MMIDIDX\x00\x00"
VERSION = 1
HEADER = struct.Struct("<9sQBQQ")
TYPE_CODES: dict[int, type[np.integer]] = {4: np.int32, 8: np.uint16}
LARGEST_SMALL_VOCABULARY = 65500  # megatron-core stores smaller vocabularies in 16 bits


class FormatError(ValueError):
    """The files are not a whole indexed dataset."""


class IndexedWriter:
    """Appends documents to `PREFIX.bin`; the index is written when it closes without an error."""

    def __init__(self, prefix: Path, vocabulary_size: int) -> None:
        self.prefix = prefix
        self.type_code = 8 if vocabulary_size < LARGEST_SMALL_VOCABULARY else 4
        self._lengths: list[int] = []
        self._bin = prefix.with_name(f"{prefix.name}.bin").open("wb")

    def append(self, tokens: Sequence[int] | npt.NDArray[np.integer]) -> None:
        """Add one document."""
        array = np.asarray(tokens, dtype=TYPE_CODES[self.type_code])
        self._bin.write(array.tobytes())
        self._lengths.append(len(array))

    def __enter__(self) -> IndexedWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self._bin.flush()
        os.fsync(self._bin.fileno())
        self._bin.close()
        if kind is None:
            self._write_index()

    def _write_index(self) -> None:
        lengths = np.asarray(self._lengths, dtype=np.int32)
        ends = np.cumsum(lengths, dtype=np.int64) * np.dtype(TYPE_CODES[self.type_code]).itemsize
        offsets = np.concatenate([np.zeros(1, np.int64), ends])[:-1] if len(lengths) else np.zeros(0, np.int64)
        boundaries = np.arange(len(lengths) + 1, dtype=np.int64)
        with self.prefix.with_name(f"{self.prefix.name}.idx").open("wb") as stream:
            stream.write(HEADER.pack(MAGIC, VERSION, self.type_code, len(lengths), len(boundaries)))
            for part in (lengths, offsets, boundaries):
                stream.write(part.tobytes())
            stream.flush()
            os.fsync(stream.fileno())


class IndexedReader:
    """Maps an indexed dataset into memory; its sizes are checked first.

    Raises:
        FormatError: the magic, the version, the type or the size of one of the two files is wrong.
    """

    def __init__(self, prefix: Path) -> None:
        index = prefix.with_name(f"{prefix.name}.idx").read_bytes()
        if len(index) < HEADER.size:
            raise FormatError(f"{prefix}.idx is too short")
        magic, version, code, sequences, boundaries = HEADER.unpack_from(index)
        if magic != MAGIC or version != VERSION or code not in TYPE_CODES:
            raise FormatError(f"{prefix}.idx is not a Megatron index of version {VERSION} with 16 or 32 bit tokens")
        if len(index) != HEADER.size + sequences * 12 + boundaries * 8:
            raise FormatError(f"{prefix}.idx is cut short")
        self.lengths = np.frombuffer(index, np.int32, sequences, HEADER.size)
        self.offsets = np.frombuffer(index, np.int64, sequences, HEADER.size + sequences * 4)
        self.boundaries = np.frombuffer(index, np.int64, boundaries, HEADER.size + sequences * 12)
        path = prefix.with_name(f"{prefix.name}.bin")
        if path.stat().st_size != int(self.lengths.sum()) * np.dtype(TYPE_CODES[code]).itemsize:
            raise FormatError(f"{path} does not have the size that its index names")
        self.tokens: npt.NDArray[np.integer] = np.memmap(path, TYPE_CODES[code], mode="r")

    def __len__(self) -> int:
        return len(self.lengths)

    def document(self, number: int) -> npt.NDArray[np.integer]:
        """The token ids of one document."""
        start = int(self.offsets[number]) // self.tokens.itemsize
        return self.tokens[start : start + int(self.lengths[number])]
