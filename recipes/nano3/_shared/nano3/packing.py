"""Packs sequences of tokens into rows of one length, as Megatron-Bridge reads packed sequences, and writes Parquet.

A row has `input_ids`, `loss_mask` and `seq_start_id`, where each sequence begins.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

WINDOW = 10_000
"""Sequences that are looked at together when rows are filled."""
Pair = tuple[npt.NDArray[np.int32], npt.NDArray[np.int8]]


def pack_files(parts: Sequence[Path], target: Path, length: int) -> dict[str, int]:
    """Pack the sequences of some files (`ids` and `mask`), in their order; how many rows, sequences and tokens.

    Without a sequence no file is made.
    """
    counts = {"rows": 0, "sequences": 0, "tokens": 0}
    columns = {"input_ids": pa.int32(), "loss_mask": pa.int8(), "seq_start_id": pa.int32()}
    schema = pa.schema(
        [(name, pa.list_(kind)) for name, kind in columns.items()], metadata={"sequence_length": str(length)}
    )
    pairs = (pair for part in parts for pair in _pairs(part))
    writer = None
    while window := list(itertools.islice(pairs, WINDOW)):
        writer = writer or pq.ParquetWriter(target, schema)
        rows = pack([len(ids) for ids, _ in window], length)
        writer.write_table(_table(rows, window, schema))
        counts["rows"] += len(rows)
        counts["sequences"] += len(window)
        counts["tokens"] += sum(len(ids) for ids, _ in window)
    if writer:
        writer.close()
    return counts


def pack(lengths: Sequence[int], length: int) -> list[list[int]]:
    """Rows of sequences' numbers, at most `length` tokens each: the longest first, each into the fullest with room."""
    rows: list[list[int]] = []
    with_room: dict[int, list[int]] = {}  # tokens left → rows
    for number in sorted(range(len(lengths)), key=lambda number: lengths[number], reverse=True):
        left = min((room for room in with_room if room >= lengths[number]), default=None)
        if left is None:
            left, place = length, len(rows)
            rows.append([])
        else:
            place = with_room[left].pop()
            if not with_room[left]:
                del with_room[left]
        rows[place].append(number)
        with_room.setdefault(left - lengths[number], []).append(place)
    return rows


def _pairs(part: Path) -> Iterator[Pair]:
    with pq.ParquetFile(part) as file:
        for batch in file.iter_batches(columns=["ids", "mask"]):
            for ids, mask in zip(batch.column(0), batch.column(1), strict=True):
                yield ids.values.to_numpy(), mask.values.to_numpy()


def _table(rows: list[list[int]], window: list[Pair], schema: pa.Schema) -> pa.Table:
    filled = {
        "input_ids": [np.concatenate([window[number][0] for number in row]) for row in rows],
        "loss_mask": [np.concatenate([window[number][1] for number in row]) for row in rows],
        "seq_start_id": [np.cumsum([0, *(len(window[number][0]) for number in row[:-1])]) for row in rows],
    }
    return pa.Table.from_arrays([pa.array(filled[field.name], field.type) for field in schema], schema=schema)
