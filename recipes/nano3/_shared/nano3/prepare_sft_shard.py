"""Turns one shard of conversations into tokens with a mask, per split: a task of the preparation for fine-tuning."""

from __future__ import annotations

import functools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nano3.conversations import Renderer
from nano3.corpus import split_of
from nano3.rows import SPLITS, rows_of
from nano3.settings import SettingsError
from nano3.shards import Result, Shard

SCHEMA = pa.schema([("ids", pa.list_(pa.int32())), ("mask", pa.list_(pa.int8()))])
BATCH = 1000


def render(job: dict[str, Any], shard: Shard, folder: Path) -> Result:
    """Write `SPLIT.parquet` for each split, a conversation a row, and say how many there were."""
    renderer, length = _renderer(job["tokenizer"]), job["sequence_length"]
    rows, dropped, counts, tokens = 0, Counter[str](), dict.fromkeys(SPLITS, 0), 0
    held: dict[str, list[dict[str, list[int]]]] = {split: [] for split in SPLITS}
    writers = {split: pq.ParquetWriter(folder / f"{split}.parquet", SCHEMA) for split in SPLITS}
    for piece in shard.pieces:
        for row, place in rows_of(piece):
            rows += 1
            try:
                ids, mask = renderer(row)
            except (ValueError, TypeError) as error:
                raise SettingsError(f"{place()}: {error}") from error
            if len(ids) > length and job["too_long"] == "fail":
                raise SettingsError(f"{place()}: {len(ids)} tokens, and a row holds {length}")
            if len(ids) > length and job["too_long"] == "drop":
                dropped["too long"] += 1
                continue
            ids, mask = ids[:length], mask[:length]
            if not any(mask[1:]):
                dropped["without an answer"] += 1
                continue
            split = split_of(json.dumps(row, sort_keys=True), job["seed"], job["valid"], 0.0)
            # The loss of a token counts where the next one is the assistant's.
            held[split].append({"ids": ids, "mask": [*mask[1:], 0]})
            counts[split] += 1
            tokens += len(ids)
            if len(held[split]) == BATCH:
                _write(writers[split], held[split])
    for split, writer in writers.items():
        _write(writer, held[split])
        writer.close()
    return {"rows": rows, "dropped": dict(dropped), "kept": counts, "tokens": tokens}


def _write(writer: pq.ParquetWriter, rows: list[dict[str, list[int]]]) -> None:
    if rows:
        writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))
        rows.clear()


@functools.lru_cache(maxsize=1)
def _renderer(folder: str) -> Renderer:
    from transformers import AutoTokenizer

    return Renderer(AutoTokenizer.from_pretrained(folder))
