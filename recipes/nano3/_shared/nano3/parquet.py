"""Reads rows of Parquet files, which are cut between their row groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nano3.pieces import Piece

BATCH = 1000


def pieces_of(path: Path, size: int) -> Iterator[Piece]:
    """The pieces of a file: as many row groups as have about `size` bytes together, as they lie in the file."""
    import pyarrow.parquet as pq  # takes its time

    meta = pq.read_metadata(path)
    sizes = [
        sum(meta.row_group(group).column(column).total_compressed_size for column in range(meta.num_columns))
        for group in range(meta.num_row_groups)
    ]
    start = 0
    while start < len(sizes):
        end, held = start + 1, sizes[start]
        while end < len(sizes) and held + sizes[end] <= size:
            held, end = held + sizes[end], end + 1
        yield Piece(str(path), held, start, end)
        start = end


def rows_of(piece: Piece) -> Iterator[dict[str, Any]]:
    """The rows of a piece."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(piece.path) as file:
        last = file.num_row_groups if piece.end is None else piece.end
        for batch in file.iter_batches(BATCH, row_groups=list(range(piece.start, last))):
            yield from batch.to_pylist()


def rows_before(piece: Piece) -> int:
    """How many rows of the file lie before the piece."""
    import pyarrow.parquet as pq

    meta = pq.read_metadata(piece.path)
    return sum(meta.row_group(group).num_rows for group in range(piece.start))
