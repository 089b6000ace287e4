"""What a training loop is given: the model to begin with, losses, and what the result is held against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import torch
from transformers import NemotronHForCausalLM

from nano3.metrics import Record

from .ranks import Ranks


class Task(Protocol):
    """One kind of training. What a step sees follows from the seed and the step's number alone."""

    title: str
    looks_first: bool
    """Whether the model to begin with is validated before the first step."""

    @property
    def described(self) -> str:
        """How much there is to learn from, for the first line of the output."""

    @property
    def tokens_per_step(self) -> float:
        """How many tokens the processes read together in a step."""

    @property
    def tokens_per_sequence(self) -> float:
        """How many of them one sequence has, in the mean."""

    @property
    def export_files(self) -> Sequence[Path]:
        """The tokenizer's files, which go beside the trained model."""

    @property
    def must_be_below(self) -> float:
        """The validation loss that a whole run must end below."""

    def make_model(self) -> NemotronHForCausalLM:
        """The model to begin with."""

    def training_loss(self, model: torch.nn.Module, step: int, ranks: Ranks) -> torch.Tensor:
        """This process's part of the loss of `step`, counted from 0: over all processes they add up to its mean."""

    def validation_losses(self, model: torch.nn.Module, ranks: Ranks) -> Iterator[tuple[float, int]]:
        """Sums of the loss over this process's share of what is kept for validation, and over how many tokens."""

    def yardsticks(self, history: Sequence[Record]) -> dict[str, float]:
        """What the validation loss is held against, by name, in nats per token."""
