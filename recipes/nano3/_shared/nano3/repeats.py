"""Finds the rows whose key an earlier row has, on disk: what is in memory does not grow with the number of rows.

Keys are digests, so they fall evenly into buckets by their first byte, those of a bucket into more by the second, until
one is small enough to be looked through in memory. All files keep the order of the rows.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

KEY, ROW = 16, 8
"""Bytes of a key, and of a row's number."""
RECORD = KEY + ROW
MOST = 1 << 19
"""Records that are looked through in memory: about 100 bytes each."""
BLOCK = 4096


def repeats(parts: Sequence[Path], folder: Path) -> Iterator[int]:
    """The numbers of such rows, in order, counted from 0 over all parts.

    Args:
        parts: files of keys, one after another.
        folder: an empty one, for what comes to be meanwhile.
    """
    records, row = folder / "records", 0
    with records.open("wb") as stream:
        for part in parts:
            for key in _items(part, KEY):
                stream.write(key + row.to_bytes(ROW, "big"))
                row += 1
    for number in _items(_repeats(records, 0), ROW):
        yield int.from_bytes(number, "big")


def _repeats(records: Path, level: int) -> Path:
    """A file of the numbers, in order; the records are removed."""
    found = records.with_suffix(".rows")
    with found.open("wb") as stream:
        if records.stat().st_size <= MOST * RECORD or level == KEY:  # beyond the last byte all keys are one
            stream.writelines(_looked_through(records))
        else:
            buckets = [_repeats(bucket, level + 1) for bucket in _split(records, level)]
            stream.writelines(heapq.merge(*(_items(bucket, ROW) for bucket in buckets)))
            for bucket in buckets:
                bucket.unlink()
    records.unlink(missing_ok=True)
    return found


def _looked_through(records: Path) -> Iterator[bytes]:
    seen: set[bytes] = set()
    for record in _items(records, RECORD):
        if (key := record[:KEY]) in seen:
            yield record[KEY:]
        seen.add(key)


def _split(records: Path, level: int) -> list[Path]:
    """The buckets of some records that are not empty; the records are removed."""
    streams: dict[int, IO[bytes]] = {}
    with ExitStack() as stack:
        for record in _items(records, RECORD):
            if (byte := record[level]) not in streams:
                streams[byte] = stack.enter_context(records.with_name(f"{records.name}-{byte:02x}").open("wb"))
            streams[byte].write(record)
    records.unlink()
    return [Path(stream.name) for stream in streams.values()]


def _items(path: Path, size: int) -> Iterator[bytes]:
    """The items of a file, all of one size in bytes."""
    with path.open("rb") as stream:
        while block := stream.read(BLOCK * size):
            yield from (block[start : start + size] for start in range(0, len(block), size))
