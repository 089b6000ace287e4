"""Turns one shard of text into tokens, per split: what a task of the data preparation for pretraining does."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from nano3.blend import SPLITS
from nano3.corpus import split_of, texts_of
from nano3.indexed_parts import PartWriter
from nano3.shards import Result, Shard

BATCH_DOCUMENTS = 100
"""A tenth less of a processor's time than 1000 takes: what `tokenizers` makes of a batch stays in its caches."""
BATCH_CHARACTERS = 1 << 22


def tokenize(job: dict[str, Any], shard: Shard, folder: Path) -> Result:
    """Write a part per split (`indexed_parts`), and say how many rows, documents and tokens there were."""
    tokenizer, eos = _tokenizer(job["tokenizer"]), job["eos_token_id"]
    rows, dropped = 0, Counter[str]()
    with ExitStack() as stack:
        parts = {split: stack.enter_context(PartWriter(folder / split, job["type_code"], eos)) for split in SPLITS}
        reading = job["rows"][shard.group]
        for batch in _batches(text for piece in shard.pieces for text in texts_of(piece, *reading, dropped=dropped)):
            texts = [text for text in batch if text]
            rows += len(batch)
            for text, encoding in zip(texts, tokenizer.encode_batch_fast(texts, add_special_tokens=False), strict=True):
                parts[split_of(text, *job["shares"])].append(encoding.ids)
    return {
        "rows": rows,
        "dropped": dict(dropped),
        "documents": {split: part.documents for split, part in parts.items()},
        "tokens": {split: part.tokens for split, part in parts.items()},
    }


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Up to so many texts, and no more characters than one text brings above the limit."""
    iterator = iter(texts)
    while batch := list(itertools.islice(iterator, 1)):
        characters = len(batch[0])
        while len(batch) < BATCH_DOCUMENTS and characters < BATCH_CHARACTERS:
            if (text := next(iterator, None)) is None:
                break
            batch.append(text)
            characters += len(text)
        yield batch


@functools.lru_cache(maxsize=1)
def _tokenizer(path: str) -> Tokenizer:
    """Loaded once in a process, which makes many shards."""
    return Tokenizer.from_file(path)
