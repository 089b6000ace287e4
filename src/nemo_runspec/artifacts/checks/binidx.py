"""Megatron's indexed datasets: tokens in PREFIX.bin, where each sequence lies in PREFIX.idx.

The layout is that of megatron-core 0.16 (`megatron/core/datasets/indexed_dataset.py`), little endian: 9 bytes magic,
u64 version, u8 type code, u64 number of sequences, u64 number of document boundaries; an i32 length per sequence, an
i64 offset per sequence, the i64 boundaries, and of multimodal data an i8 mode per sequence.
"""

import array
import json
import os
import struct
import sys

from nemo_runspec.artifacts.checks.look import Defect, Inspection, files_at, spans

MYPY = False
if MYPY:
    from typing import IO, Any, Iterator, List

_MAGIC = b"MMIDIDX\x00\x00"
_HEADER = struct.Struct("<9sQBQQ")
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 8, 7: 4, 8: 2}
"""Type code -> bytes of a token: uint8, int8, int16, int32, int64, float64, float32, uint16."""
_BLOCK = 1 << 17
_FILES = 256


def check_binidx(path: str, look: Inspection) -> "Iterator[Defect]":
    """Each index names the sequences of its data, which have exactly the size that it names."""
    if os.path.isdir(path):
        indexes = files_at(path, (".idx",))
        if not indexes:
            yield Defect("holds no .idx file", path)
        for file in files_at(path, (".bin",)):
            if file[: -len(".bin")] + ".idx" not in indexes:
                yield Defect("has no .idx beside it", file)
    else:
        indexes = [path if path.endswith(".idx") else _prefix(path) + ".idx"]
    for file in look.some_of(indexes, _FILES):
        for found in _check_pair(file, look):
            yield found


def check_blend(path: str, look: Inspection) -> "Iterator[Defect]":
    """Pairs of data and index, and the blend that names each by its prefix."""
    for found in check_binidx(path, look):
        yield found
    file = os.path.join(path, "blend.json")
    if not os.path.isfile(file):
        yield Defect("has no blend.json", path)
        return
    try:
        with open(file, encoding="utf-8") as stream:
            blend = json.load(stream)
    except ValueError as error:
        yield Defect("is not JSON: %s" % error, file)
        return
    if not isinstance(blend, dict) or not blend:
        yield Defect("is not an object with splits", file)
        return
    for split, flat in sorted(blend.items()):
        for what in _wrong_split(path, flat):
            yield Defect(what, file, "split %s" % split)


def exists_at(path: str) -> bool:
    """True if there is something at a path or prefix."""
    return os.path.exists(path) or os.path.exists(path + ".idx")


def _wrong_split(folder: str, flat: "Any") -> "Iterator[str]":
    if flat is None:
        return
    if not isinstance(flat, list) or len(flat) % 2:
        yield "is not a list of weights and prefixes"
        return
    for weight, prefix in zip(flat[::2], flat[1::2]):
        try:
            float(weight)
        except (TypeError, ValueError):
            yield "has the weight %s, which is no number" % json.dumps(weight)
        beside = os.path.join(folder, os.path.basename(str(prefix)))
        if not any(os.path.isfile(place + ".idx") for place in (str(prefix), beside)):
            yield "names %s, of which there is no .idx" % prefix


def _prefix(path: str) -> str:
    return path[: -len(".bin")] if path.endswith(".bin") else path


def _check_pair(file: str, look: Inspection) -> "Iterator[Defect]":
    data = file[: -len(".idx")] + ".bin"
    if not os.path.isfile(data):
        yield Defect("there is no %s" % os.path.basename(data), file)
        return
    with open(file, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        head = stream.read(_HEADER.size)
        if len(head) < _HEADER.size or head[: len(_MAGIC)] != _MAGIC:
            yield Defect("is no index of Megatron's: it does not begin with its magic number", file)
            return
        _, version, code, sequences, boundaries = _HEADER.unpack(head)
        if version != 1 or code not in _SIZES:
            yield Defect("has version %d and token type %d; known: version 1, types 1 to 8" % (version, code), file)
            return
        whole = _HEADER.size + sequences * 12 + boundaries * 8
        if size not in (whole, whole + sequences):
            words = "%d bytes long; its %d sequences and %d document boundaries take %d"
            yield Defect(words % (size, sequences, boundaries, whole), file)
            return
        for found in _Index(stream, file, _SIZES[code], sequences, boundaries).check(data, look):
            yield found


class _Index(object):
    """An index whose header and size are right."""

    def __init__(self, stream: "IO[bytes]", file: str, token: int, sequences: int, boundaries: int) -> None:
        self._stream = stream
        self._file = file
        self._token = token
        self._sequences = sequences
        self._boundaries = boundaries
        self._offsets = _HEADER.size + 4 * sequences
        self._documents = self._offsets + 8 * sequences

    def check(self, data: str, look: Inspection) -> "Iterator[Defect]":
        for begin, end in spans(self._sequences, _BLOCK, look):
            for found in self._check_sequences(begin, end):
                yield found
        for begin, end in spans(self._boundaries, _BLOCK, look):
            for found in self._check_documents(begin, end):
                yield found
        size, named = os.path.getsize(data), self._end()
        if size != named:
            words = "is %d bytes long; its index names %d tokens of %d bytes: %d"
            yield Defect(words % (size, named // self._token, self._token, named), data)

    def _numbers(self, kind: str, place: int, first: int, end: int) -> "List[int]":
        numbers = array.array(kind)
        self._stream.seek(place + first * numbers.itemsize)
        numbers.frombytes(self._stream.read((end - first) * numbers.itemsize))
        if sys.byteorder == "big":
            numbers.byteswap()
        return numbers.tolist()

    def _end(self) -> int:
        """Where the last sequence ends."""
        if not self._sequences:
            return 0
        last = self._sequences - 1
        (length,) = self._numbers("i", _HEADER.size, last, last + 1)
        (offset,) = self._numbers("q", self._offsets, last, last + 1)
        return offset + length * self._token

    def _check_sequences(self, begin: int, end: int) -> "Iterator[Defect]":
        """Each begins where the one before it ends."""
        lengths = self._numbers("i", _HEADER.size, begin, end)
        offsets = self._numbers("q", self._offsets, begin, min(self._sequences, end + 1))
        at = offsets[0] if begin else 0
        for number, (length, offset) in enumerate(zip(lengths, offsets), begin):
            if length < 0 or offset != at:
                words = "has %d tokens at byte %d; the one before it ends at %d"
                yield Defect(words % (length, offset, at), self._file, "sequence %d" % number)
                return
            at = offset + length * self._token
        if offsets[len(lengths) :] and offsets[-1] != at:
            words = "begins at byte %d; the one before it ends at %d"
            yield Defect(words % (offsets[-1], at), self._file, "sequence %d" % end)

    def _check_documents(self, begin: int, end: int) -> "Iterator[Defect]":
        """The boundaries go from 0 to the number of sequences."""
        numbers = self._numbers("q", self._documents, max(0, begin - 1), end)
        first = max(0, begin - 1)
        if begin == 0 and numbers[0] != 0:
            yield Defect("is %d, not 0" % numbers[0], self._file, "document boundary 0")
        if end == self._boundaries and numbers[-1] != self._sequences:
            words = "is %d; there are %d sequences"
            yield Defect(words % (numbers[-1], self._sequences), self._file, "document boundary %d" % (end - 1))
        for number in range(1, len(numbers)):
            if numbers[number] < numbers[number - 1]:
                words = "is %d, below the one before it, %d"
                place = "document boundary %d" % (first + number)
                yield Defect(words % (numbers[number], numbers[number - 1]), self._file, place)
                return
