"""Pretraining as a task: windows of the token stream, every token foretold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from transformers import NemotronHForCausalLM

from nano3.metrics import Record

from .data import check_length, read_corpus, training_batch, validation_batches
from .model import make_model, next_token_loss
from .ranks import Ranks
from .settings import TinySettings
from .trigram import trigram_cross_entropy

MOST_COUNTED = 20_000_000
"""Tokens whose trigrams are counted: that takes about 100 bytes for each."""


class Pretraining:
    """A new model learns the next token of prepared text."""

    title = "nano3 pretraining"
    looks_first = False

    def __init__(self, settings: TinySettings) -> None:
        self.settings, self.corpus = settings, read_corpus(settings.data_dir)
        check_length(self.corpus, "dataset.seq_length", settings.dataset.seq_length)

    @property
    def described(self) -> str:
        """The size of the training text."""
        return f"{len(self.corpus.train):,} training tokens"

    @property
    def tokens_per_step(self) -> float:
        """Those of every window."""
        return self.settings.train.global_batch_size * self.settings.dataset.seq_length

    @property
    def tokens_per_sequence(self) -> float:
        """A window's."""
        return self.settings.dataset.seq_length

    @property
    def export_files(self) -> Sequence[Path]:
        """The tokenizer of the text."""
        return sorted(self.corpus.tokenizer_dir.iterdir())

    @property
    def must_be_below(self) -> float:
        """The unigram entropy, where that is wanted."""
        return self.corpus.unigram_entropy if self.settings.train.require_below_unigram else math.inf

    def make_model(self) -> NemotronHForCausalLM:
        """One with weights from the seed."""
        return make_model(self.settings, self.corpus)

    def training_loss(self, model: torch.nn.Module, step: int, ranks: Ranks) -> torch.Tensor:
        """The mean over the tokens of this process's windows, times their share of the batch."""
        settings = self.settings
        size, length = settings.train.global_batch_size, settings.dataset.seq_length
        rows, share = training_batch(self.corpus.train, step, settings.rng.seed, size, length, ranks)
        return next_token_loss(model, rows) * share

    def validation_losses(self, model: torch.nn.Module, ranks: Ranks) -> Iterator[tuple[float, int]]:
        """Batches of the validation text."""
        train, length = self.settings.train, self.settings.dataset.seq_length
        for rows in validation_batches(self.corpus.valid, train.global_batch_size, length, train.eval_iters, ranks):
            yield next_token_loss(model, rows, reduction="sum").item(), rows[:, 1:].numel()

    def yardsticks(self, history: Sequence[Record]) -> dict[str, float]:
        """What counting tokens alone would reach on the validation text."""
        corpus, found = self.corpus, {"unigram entropy": self.corpus.unigram_entropy}
        if len(corpus.train) <= MOST_COUNTED:
            train, valid = corpus.train.astype(np.int64), corpus.valid.astype(np.int64)
            trigram = trigram_cross_entropy(train, valid, corpus.vocabulary_size, corpus.eos_token_id)
            found["trigram cross-entropy"] = trigram
        return found
