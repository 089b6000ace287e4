"""Turns one shard of conversations into tokens with a mask, per split: a task of the preparation for fine-tuning."""

from __future__ import annotations

import functools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nano3.cleaning import NOT_UNICODE, is_unicode
from nano3.conversations import REFUSED, WITHOUT, LeftOutError, Renderer
from nano3.corpus import split_of
from nano3.rows import SPLITS, rows_of
from nano3.settings import SettingsError
from nano3.shards import Result, Shard

SCHEMA = pa.schema([("ids", pa.list_(pa.int32())), ("mask", pa.list_(pa.int8()))])
BATCH = 1000


def render(job: dict[str, Any], shard: Shard, folder: Path) -> Result:
    """Write `SPLIT.parquet` for each split, a conversation a row, and say how many there were."""
    renderer, rows, dropped = _renderer(job["tokenizer"]), 0, Counter[str]()
    counts, tokens, refused, passed_over = dict.fromkeys(SPLITS, 0), 0, "", renderer.passed_over
    held: dict[str, list[dict[str, list[int]]]] = {split: [] for split in SPLITS}
    writers = {split: pq.ParquetWriter(folder / f"{split}.parquet", SCHEMA) for split in SPLITS}
    for piece in shard.pieces:
        for row, place in rows_of(piece):
            rows += 1
            try:
                ids, mask = _tokens(renderer, row, job["sequence_length"], job["too_long"])
            except LeftOutError as error:
                dropped[error.reason] += 1
                if error.reason == REFUSED:
                    refused = refused or f"{place()}: {error}"
                continue
            except (ValueError, TypeError) as error:
                raise SettingsError(f"{place()}: {error}") from error
            split = split_of(json.dumps(row, sort_keys=True, default=str), job["seed"], job["valid"], 0.0)
            # The loss of a token counts where the next one is the assistant's.
            held[split].append({"ids": ids, "mask": [*mask[1:], 0]})
            counts[split] += 1
            tokens += len(ids)
            if len(held[split]) == BATCH:
                _write(writers[split], held[split])
    for split, writer in writers.items():
        _write(writer, held[split])
        writer.close()
    made = {"rows": rows, "dropped": dict(dropped), "kept": counts, "tokens": tokens}
    return {**made, "passed_over": renderer.passed_over - passed_over, "refused": refused}


def _tokens(renderer: Renderer, row: dict[str, Any], length: int, too_long: str) -> tuple[list[int], list[int]]:
    """The tokens of a conversation that is kept, with their mask.

    Raises:
        LeftOutError: it is not kept.
        ValueError: it is no conversation, or longer than it may be.
    """
    if not is_unicode(row):
        raise LeftOutError(NOT_UNICODE)
    ids, mask = renderer(row)
    if len(ids) > length and too_long == "fail":
        raise ValueError(f"{len(ids)} tokens, and a row holds {length}")
    if len(ids) > length and too_long == "drop":
        raise LeftOutError("too long")
    ids, mask = ids[:length], mask[:length]
    if not any(mask[1:]):
        raise LeftOutError(WITHOUT)
    return ids, mask


def _write(writer: pq.ParquetWriter, rows: list[dict[str, list[int]]]) -> None:
    if rows:
        writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))
        rows.clear()


@functools.lru_cache(maxsize=1)
def _renderer(folder: str) -> Renderer:
    from transformers import AutoTokenizer

    return Renderer(AutoTokenizer.from_pretrained(folder))
