"""The token stream as batches: which windows a step trains on follows from the seed and the step's number alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from nano3.blend import Blend, read_blend
from nano3.indexed import FormatError, IndexedReader
from nano3.settings import SettingsError

from .ranks import Ranks

Tokens = npt.NDArray[np.integer]


@dataclass(frozen=True)
class Corpus:
    """A prepared dataset. Where a split is one file its tokens are mapped into memory, else all of them are read."""

    train: Tokens
    valid: Tokens
    vocabulary_size: int
    eos_token_id: int
    unigram_entropy: float
    tokenizer_dir: Path


def read_corpus(folder: Path) -> Corpus:
    """Read what data preparation wrote.

    Raises:
        SettingsError: the folder is not a whole dataset.
    """
    try:
        manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        blends = read_blend(folder / "blend.json")
        _check_weights(blends["train"])
        return Corpus(
            train=_stream(blends["train"]),
            valid=_stream(blends["valid"]),
            vocabulary_size=manifest["tokenizer"]["vocabulary_size"],
            eos_token_id=manifest["tokenizer"]["eos_token_id"],
            unigram_entropy=manifest["valid_unigram_entropy"],
            tokenizer_dir=folder / manifest["tokenizer"]["folder"],
        )
    except (OSError, ValueError, KeyError, FormatError) as error:
        raise SettingsError(f"data_dir {folder} holds no whole dataset: {error}") from error


def training_batch(
    tokens: Tokens, step: int, seed: int, batch_size: int, length: int, ranks: Ranks
) -> tuple[torch.Tensor, float]:
    """This process's rows of the batch of `step`, counted from 0, each of `length + 1` tokens; and their share of it.

    Any number of processes may share a batch. One that is left without a row has one all the same, whose share is 0:
    the others wait for its gradients.
    """
    per_epoch = (len(tokens) - length - 1) // length
    first = step * batch_size
    mine = range(first + ranks.rank, first + batch_size, ranks.world_size)
    rows = [_window(tokens, divmod(number, per_epoch), per_epoch, seed, length) for number in mine or (first,)]
    return torch.from_numpy(np.stack(rows).astype(np.int64)), len(mine) / batch_size


def validation_batches(
    tokens: Tokens, batch_size: int, length: int, limit: int | None, ranks: Ranks
) -> Iterator[torch.Tensor]:
    """This process's share of the validation text: windows side by side, the rest at the end left out."""
    count = (len(tokens) - 1) // length
    if limit is not None:
        count = min(count, limit * batch_size)
    mine = range(ranks.rank, count, ranks.world_size)
    local = max(1, batch_size // ranks.world_size)
    for start in range(0, len(mine), local):
        rows = [tokens[number * length : number * length + length + 1] for number in mine[start : start + local]]
        yield torch.from_numpy(np.stack(rows).astype(np.int64))


def check_length(corpus: Corpus, key: str, length: int) -> None:
    """Raise where a split is too short for one window."""
    for name, tokens, least in (("train", corpus.train, 2 * length + 1), ("valid", corpus.valid, length + 1)):
        if len(tokens) < least:
            raise SettingsError(f"the {name} split has {len(tokens)} tokens, too few for {key}={length}")


def _stream(blend: Blend) -> Tokens:
    parts = [IndexedReader(prefix).tokens for _, prefix in blend]
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, dtype=np.uint16), *parts])


def _check_weights(blend: Blend) -> None:
    """Raise where a dataset has another weight than its number of tokens: every token is read as often as any other."""
    tokens = [len(IndexedReader(prefix).tokens) for _, prefix in blend]
    weights, total = [weight for weight, _ in blend], sum(weight for weight, _ in blend)
    shares = [[part / (sum(parts) or 1) for part in parts] for parts in (weights, tokens)]
    if total and max((abs(one - other) for one, other in zip(*shares, strict=True)), default=0.0) > 0.01:
        raise ValueError(
            "its datasets have weights of their own (`weight` in data prep), which this path does not honour"
        )


def _window(tokens: Tokens, place: tuple[int, int], per_epoch: int, seed: int, length: int) -> Tokens:
    epoch, number = place
    shift, order = _order(seed, epoch, per_epoch, length)
    start = shift + int(order[number]) * length
    return tokens[start : start + length + 1]


@lru_cache(maxsize=2)  # a batch may reach into the next epoch
def _order(seed: int, epoch: int, per_epoch: int, length: int) -> tuple[int, npt.NDArray[np.int64]]:
    """Where an epoch cuts the stream, each one elsewhere, and in which order it takes the windows."""
    chance = np.random.default_rng([seed, epoch])
    return int(chance.integers(length)), chance.permutation(per_epoch)
