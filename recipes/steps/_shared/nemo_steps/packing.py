"""Packs sequences of tokens into rows of one length, and writes the rows as Parquet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

SPLITS = ("train", "valid")


@dataclass(frozen=True)
class Sequence:
    """Token ids and, for each, 1 where the loss counts it."""

    ids: list[int]
    mask: list[int]

    def cut(self, length: int) -> Sequence:
        """Its first `length` tokens."""
        return Sequence(self.ids[:length], self.mask[:length])


def pack(sequences: Iterable[Sequence], length: int) -> list[list[Sequence]]:
    """Rows of at most `length` tokens: the longest sequences first, each into the fullest row that has room for it."""
    rows: list[list[Sequence]] = []
    with_room: dict[int, list[int]] = {}  # tokens left → rows
    for sequence in sorted(sequences, key=lambda each: len(each.ids), reverse=True):
        left = min((room for room in with_room if room >= len(sequence.ids)), default=None)
        place = len(rows) if left is None else with_room[left].pop()
        if left is None:
            rows.append([])
            left = length
        elif not with_room[left]:
            del with_room[left]
        rows[place].append(sequence)
        with_room.setdefault(left - len(sequence.ids), []).append(place)
    return rows


def filled(counts: dict[str, int], length: int) -> float:
    """The share of the rows' tokens that are not padding."""
    return counts["tokens"] / (counts["rows"] * length) if counts["rows"] else 0.0


class Writers:
    """Writes `train.parquet` and `valid.parquet` in a folder; a file without rows is not made."""

    def __init__(self, folder: Path, length: int) -> None:
        import pyarrow as pa

        self.counts = {split: {"rows": 0, "tokens": 0, "sequences": 0} for split in SPLITS}
        self._folder, self._open = folder, dict[str, Any]()
        columns = {"input_ids": pa.int32(), "loss_mask": pa.int8(), "seq_start_id": pa.int32()}
        fields = [(name, pa.list_(kind)) for name, kind in columns.items()]
        self._schema = pa.schema(fields, metadata={"sequence_length": str(length)})

    def write(self, split: str, rows: list[list[Sequence]]) -> None:
        """Append rows to a split."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not rows:
            return
        if split not in self._open:
            self._open[split] = pq.ParquetWriter(self._folder / f"{split}.parquet", self._schema)
        self._open[split].write_table(pa.Table.from_pylist([_row(row) for row in rows], schema=self._schema))
        counts = self.counts[split]
        counts["rows"] += len(rows)
        counts["sequences"] += sum(map(len, rows))
        counts["tokens"] += sum(len(sequence.ids) for row in rows for sequence in row)

    def __enter__(self) -> Writers:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        for writer in self._open.values():
            writer.close()


def _row(sequences: list[Sequence]) -> dict[str, list[int]]:
    """A row: the mask is moved to the token before, which predicts the one that counts."""
    row: dict[str, list[int]] = {"input_ids": [], "loss_mask": [], "seq_start_id": []}
    for sequence in sequences:
        row["seq_start_id"].append(len(row["input_ids"]))
        row["input_ids"] += sequence.ids
        row["loss_mask"] += [*sequence.mask[1:], 0]
    return row
