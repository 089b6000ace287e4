"""Supervised fine-tuning as a task: a pretrained model learns what the assistant says in conversations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from transformers import NemotronHForCausalLM

from nano3.dataset_folder import check_files
from nano3.files import sha256_of
from nano3.metrics import Record
from nano3.packed import Conversation, read_packed
from nano3.settings import SettingsError

from .conversations import answer_loss, chosen, make_batch, share_of
from .data import check_length, read_corpus, training_batch
from .model import load_model, next_token_loss
from .ranks import Ranks
from .settings import SftSettings

TOKENIZER = "tokenizer.json"


class FineTuning:
    """A model that pretraining wrote goes on with the answers of packed conversations."""

    title = "nano3 fine-tuning"
    looks_first = True
    must_be_below = math.inf

    def __init__(self, settings: SftSettings) -> None:
        self.settings = settings
        self.base, self.tokenizer = settings.base_dir / "hf", settings.data_dir / "tokenizer"
        check_files(settings.data_dir, "train.parquet", "valid.parquet")
        self.train, self.valid = (_read(settings.data_dir / f"{split}.parquet") for split in ("train", "valid"))
        check_tokenizers(self.base, self.tokenizer)
        self.corpus = read_corpus(settings.text.dir) if settings.text.dir else None
        if self.corpus is not None:
            check_tokenizers(self.base, self.corpus.tokenizer_dir)
            check_length(self.corpus, "text.seq_length", settings.text.seq_length)

    @property
    def described(self) -> str:
        """How many conversations there are, and answers' tokens in them."""
        answers = sum(each.counted for each in self.train)
        return f"{len(self.train):,} conversations with {answers:,} tokens of answers"

    @property
    def tokens_per_step(self) -> float:
        """Those of a batch of conversations of mean length."""
        return self.settings.train.global_batch_size * sum(len(each.ids) for each in self.train) / len(self.train)

    @property
    def tokens_per_sequence(self) -> float:
        """Those of a conversation of mean length."""
        return self.tokens_per_step / self.settings.train.global_batch_size

    @property
    def export_files(self) -> Sequence[Path]:
        """The tokenizer of the conversations, with their chat template."""
        return sorted(self.tokenizer.iterdir())

    def make_model(self) -> NemotronHForCausalLM:
        """The pretrained one."""
        torch.manual_seed(self.settings.rng.seed)
        return load_model(self.base)

    def training_loss(self, model: torch.nn.Module, step: int, ranks: Ranks) -> torch.Tensor:
        """This process's conversations, divided by the number of tokens that count in the whole batch."""
        settings = self.settings
        batch = chosen(len(self.train), step, settings.rng.seed, settings.train.global_batch_size)
        counted = sum(self.train[place].counted for place in batch)
        mine = batch[ranks.rank :: ranks.world_size]
        loss = answer_loss(model, make_batch([self.train[place] for place in share_of(batch, ranks)]))
        return loss / counted * float(bool(mine)) + self._text_loss(model, step, ranks)

    def _text_loss(self, model: torch.nn.Module, step: int, ranks: Ranks) -> torch.Tensor | float:
        """The mean over windows of the text that the model was pretrained on, so that it does not forget it."""
        text = self.settings.text
        if self.corpus is None:
            return 0.0
        seed = self.settings.rng.seed
        rows, share = training_batch(self.corpus.train, step, seed, text.batch_size, text.seq_length, ranks)
        return next_token_loss(model, rows) * share * text.weight

    def validation_losses(self, model: torch.nn.Module, ranks: Ranks) -> Iterator[tuple[float, int]]:
        """The conversations that are kept for validation, batch by batch."""
        train = self.settings.train
        most = len(self.valid) if train.eval_iters is None else train.eval_iters * train.global_batch_size
        mine = self.valid[:most][ranks.rank :: ranks.world_size]
        for start in range(0, len(mine), train.global_batch_size):
            part = mine[start : start + train.global_batch_size]
            yield answer_loss(model, make_batch(part)).item(), sum(each.counted for each in part)

    def yardsticks(self, history: Sequence[Record]) -> dict[str, float]:
        """What validation found first, before anything else was learnt."""
        found = [record["val_loss"] for record in history if record["step"] == 0 and "val_loss" in record]
        return {"loss before fine-tuning": found[0]} if found else {}


def check_tokenizers(model: Path, data: Path) -> None:
    """Raise where the model has learnt other tokens than those that the data is made of."""
    files = [folder / TOKENIZER for folder in (model, data)]
    for file in files:
        if not file.is_file():
            raise SettingsError(f"there is no {file}")
    if sha256_of(files[0]) != sha256_of(files[1]):
        raise SettingsError(f"the model has another tokenizer ({files[0]}) than the data ({files[1]})")


def _read(file: Path) -> list[Conversation]:
    found = [each for each in read_packed(file) if each.counted]
    if not found:
        raise SettingsError(f"{file} holds no conversation with an answer")
    return found
