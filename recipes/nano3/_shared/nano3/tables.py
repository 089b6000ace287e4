"""Reads rows of Parquet files and of Arrow streams, as `datasets.Dataset.save_to_disk` writes them.

A Parquet file is cut between its row groups, a stream between its record batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nano3.pieces import Piece
from nano3.settings import SettingsError

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 1000
PARQUET, ARROW = ".parquet", ".arrow"
SAVED = "state.json"
"""What `save_to_disk` writes last into a dataset's folder."""


def is_table(path: str) -> bool:
    """Whether a file of that name has rows with columns."""
    return path.endswith((PARQUET, ARROW))


def saved_files(folder: Path) -> list[Path]:
    """The files of a dataset that `save_to_disk` wrote, in order; none where the folder is no such dataset."""
    return sorted(folder.glob(f"data-*{ARROW}")) if (folder / SAVED).is_file() else []


def pieces_of(path: Path, size: int) -> Iterator[Piece]:
    """The pieces of a file: as many groups or batches as have about `size` bytes together, as they lie in the file."""
    sizes = [held for held, _ in _groups(str(path))]
    start = 0
    while start < len(sizes):
        end, held = start + 1, sizes[start]
        while end < len(sizes) and held + sizes[end] <= size:
            held, end = held + sizes[end], end + 1
        yield Piece(str(path), held, start, end)
        start = end


def rows_of(piece: Piece) -> Iterator[dict[str, Any]]:
    """The rows of a piece."""
    for batch in _batches(piece):
        for start in range(0, batch.num_rows, BATCH):
            yield from batch.slice(start, BATCH).to_pylist()


def rows_before(piece: Piece) -> int:
    """How many rows of the file lie before the piece."""
    return sum(rows for _, rows in islice(_groups(piece.path), piece.start))


def count_rows(path: Path) -> int:
    """How many rows a file says that it has (Parquet), or its batches have."""
    import pyarrow.parquet as pq

    if path.name.endswith(ARROW):
        return sum(rows for _, rows in _groups(str(path)))
    with _readable(str(path)):
        return int(pq.read_metadata(path).num_rows)


def _groups(path: str) -> Iterator[tuple[int, int]]:
    """Bytes and rows of each group or batch."""
    import pyarrow.parquet as pq  # takes its time

    if path.endswith(ARROW):
        with _stream(path) as batches:
            yield from ((batch.nbytes, batch.num_rows) for batch in batches)
        return
    with _readable(path):
        meta = pq.read_metadata(path)
    for number in range(meta.num_row_groups):
        group = meta.row_group(number)
        yield sum(group.column(each).total_compressed_size for each in range(meta.num_columns)), group.num_rows


def _batches(piece: Piece) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    if piece.path.endswith(ARROW):
        with _stream(piece.path) as batches:
            yield from islice(batches, piece.start, piece.end)
        return
    with _readable(piece.path), pq.ParquetFile(piece.path) as file:
        last = file.num_row_groups if piece.end is None else piece.end
        yield from file.iter_batches(BATCH, row_groups=list(range(piece.start, last)))


@contextmanager
def _stream(path: str) -> Iterator[pa.RecordBatchReader]:
    """The batches of a file, of which only what is looked at is read."""
    import pyarrow as pa

    with _readable(path), pa.memory_map(path) as file, pa.ipc.open_stream(file) as batches:
        yield batches


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """Names the file whose content is no table; what a disk has for errors is none of the user's, and goes on."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowInvalid as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error
