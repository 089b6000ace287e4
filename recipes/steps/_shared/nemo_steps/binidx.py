"""Megatron's indexed dataset and its blend: token ids in `PREFIX.bin`, where each document lies in `PREFIX.idx`.

The layout, little endian, as megatron-core 0.16.1 reads it (`megatron/core/datasets/indexed_dataset.py`): 9 bytes
magic, u64 version 1, u8 type code, u64 sequences, u64 document boundaries, an i32 length and an i64 byte offset per
sequence, the i64 document boundaries. Here each document is one sequence. `recipes/nano3/_shared` has a writer too,
which travels with that family alone; a test holds the two to the same bytes.
"""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nemo_steps.config import ConfigError

SPLITS = ("train", "valid", "test")
BLEND = "blend.json"
Blend = dict[str, list[tuple[float, str]]]
"""Split → weight and prefix of each of its datasets."""

_HEADER = struct.Struct("<9sQBQQ")
_MAGIC, _VERSION = b"MMIDIDX\x00\x00", 1
_SMALL, _LARGE = (8, "H"), (4, "i")
"""Megatron's code of the type of a token id, and `array`'s."""

_MOST_SMALL = 65500  # megatron-core stores smaller vocabularies in 16 bits


class Writer:
    """Appends documents to `PREFIX.bin`. `PREFIX.idx` is written by `writing`, once all are there."""

    def __init__(self, prefix: Path, vocabulary: int) -> None:
        self.code, self._type = _SMALL if vocabulary < _MOST_SMALL else _LARGE
        self.lengths = array("i")
        self._tokens = Path(f"{prefix}.bin").open("wb")  # noqa: SIM115 - closed by `writing`
        self._index = Path(f"{prefix}.idx")

    def append(self, tokens: Sequence[int]) -> None:
        """Add one document."""
        array(self._type, tokens).tofile(self._tokens)
        self.lengths.append(len(tokens))

    def close(self) -> None:
        """Write the index; both files go where no document came, since Megatron cannot map an empty one."""
        self._tokens.close()
        if not self.lengths:
            Path(self._tokens.name).unlink()
            return
        size, offset, offsets = array(self._type).itemsize, 0, array("q")
        for length in self.lengths:
            offsets.append(offset)
            offset += length * size
        count = len(self.lengths)
        with self._index.open("wb") as index:
            index.write(_HEADER.pack(_MAGIC, _VERSION, self.code, count, count + 1))
            for part in (self.lengths, offsets, array("q", range(count + 1))):
                part.tofile(index)


@contextmanager
def writing(folder: Path, name: str, vocabulary: int) -> Iterator[dict[str, Writer]]:
    """A writer for each split: `FOLDER/NAME_train` and so on. Without an error, the indexes are written at the end."""
    writers = {split: Writer(folder / f"{name}_{split}", vocabulary) for split in SPLITS}
    yield writers
    for writer in writers.values():
        writer.close()


def write_blend(folder: Path, blend: Blend) -> None:
    """Write `blend.json`: per split `[weight, prefix, …]`, or null: Megatron's `per_split_data_args_path`."""
    flat = {split: [item for pair in blend[split] for item in (str(pair[0]), pair[1])] or None for split in SPLITS}
    (folder / BLEND).write_text(json.dumps(flat, indent=2) + "\n", encoding="utf-8")


def read_blend(place: Path) -> Blend:
    """The datasets at a place, per split.

    Args:
        place: a prefix, or a folder: with `blend.json`, whose prefixes are looked for beside it where the folder has
            been moved; else every pair of files in it, by the split that its name ends with, or else for training.

    Raises:
        ConfigError: there are none.
    """
    if Path(f"{place}.idx").is_file():
        return {"train": [(1.0, str(place))], "valid": [], "test": []}
    if (place / BLEND).is_file():
        flat = json.loads((place / BLEND).read_text(encoding="utf-8"))
        return {split: list(_pairs(flat.get(split) or [], place)) for split in SPLITS}
    found: Blend = {split: [] for split in SPLITS}
    for index in sorted(place.glob("**/*.idx")):
        ending = index.stem.rpartition("_")[2]
        found[ending if ending in SPLITS else "train"].append((1.0, str(index.with_suffix(""))))
    if not any(found.values()):
        raise ConfigError(f"{place} holds no pair of .bin and .idx")
    return found


def _pairs(flat: Sequence[float | str], folder: Path) -> Iterator[tuple[float, str]]:
    for weight, prefix in zip(flat[::2], flat[1::2], strict=True):
        beside = folder / Path(str(prefix)).name
        yield float(weight), str(beside if Path(f"{beside}.idx").is_file() else prefix)
