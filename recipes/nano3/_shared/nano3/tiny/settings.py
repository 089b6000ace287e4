"""What the tiny path can be told; the names are Megatron-Bridge's where it has one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nano3.settings import SettingsError

PRECISIONS = ("fp32", "bf16")


@dataclass(frozen=True)
class Dataset:
    """How the token stream is cut."""

    seq_length: int = 128


@dataclass(frozen=True)
class Train:
    """How long, how much at once, how often to look at the validation text.

    `exit_interval` saves and stops at the next multiple of that many steps, `train_iters` still being the whole run.
    `eval_iters` limits the validation batches; null means the whole validation text.
    `threads` is per process: so small a model gains little from a second one, and loses much where cores are shared.
    `accumulate` is in how many parts, one after another, a process takes its share of a batch.
    With `fully_shard` each process holds a part of the model (FSDP2) instead of a copy of it; `precision` `bf16` is for
    that alone: it computes in bf16 and keeps and sums up in fp32.
    """

    train_iters: int
    global_batch_size: int = 8
    eval_interval: int = 50
    eval_iters: int | None = None
    exit_interval: int | None = None
    threads: int = 1
    accumulate: int = 1
    fully_shard: bool = False
    precision: str = "fp32"


@dataclass(frozen=True)
class PretrainTrain(Train):
    """As all training; with `require_below_unigram`, a validation loss that is not below that ends with status 1."""

    require_below_unigram: bool = False


@dataclass(frozen=True)
class Optimizer:
    """AdamW, with the gradient clipped to a norm."""

    lr: float = 0.004
    min_lr: float = 0.0004
    weight_decay: float = 0.1
    adam_beta1: float = 0.9
    adam_beta2: float = 0.95
    adam_eps: float = 1e-8
    clip_grad: float = 1.0


@dataclass(frozen=True)
class Scheduler:
    """Linear warm-up, then cosine down to `min_lr` at `lr_decay_iters` (null: at `train_iters`)."""

    lr_warmup_iters: int = 20
    lr_decay_iters: int | None = None


@dataclass(frozen=True)
class Checkpoint:
    """Where to save and what to resume from.

    With `load` equal to `save`, or null, training starts from the beginning where nothing is there yet; any other
    `load` must hold a checkpoint. `most_recent_k` keeps that many.
    """

    save: Path
    load: Path | None = None
    save_interval: int = 100
    most_recent_k: int = 2


@dataclass(frozen=True)
class Logger:
    """A record every so many steps; with `mfu`, model FLOPs utilisation in it (see `flops.py`).

    `peak_tflops` is what a GPU can do, in 10^12 dense bf16 operations per second; null: as its name says.
    """

    log_interval: int = 5
    mfu: bool = False
    peak_tflops: float | None = None


@dataclass(frozen=True)
class Rng:
    """The seed of the weights and of the order of the data."""

    seed: int = 1234


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What every training is told."""

    output_dir: Path
    data_dir: Path
    train: Train
    checkpoint: Checkpoint
    optimizer: Optimizer = field(default_factory=Optimizer)
    scheduler: Scheduler = field(default_factory=Scheduler)
    logger: Logger = field(default_factory=Logger)
    rng: Rng = field(default_factory=Rng)

    def __post_init__(self) -> None:
        positive = {
            "train.train_iters": self.train.train_iters,
            "train.global_batch_size": self.train.global_batch_size,
            "train.eval_interval": self.train.eval_interval,
            "train.eval_iters": self.train.eval_iters,
            "train.exit_interval": self.train.exit_interval,
            "train.threads": self.train.threads,
            "train.accumulate": self.train.accumulate,
            "checkpoint.save_interval": self.checkpoint.save_interval,
            "checkpoint.most_recent_k": self.checkpoint.most_recent_k,
            "logger.log_interval": self.logger.log_interval,
            **self.also_positive(),
        }
        for name, value in positive.items():
            if value is not None and value < 1:
                raise SettingsError(f"{name} must be at least 1, not {value}")
        if self.train.precision not in PRECISIONS:
            raise SettingsError(f"train.precision must be one of {', '.join(PRECISIONS)}, not {self.train.precision!r}")
        if self.train.precision == "bf16" and not self.train.fully_shard:
            raise SettingsError("train.precision=bf16 needs train.fully_shard=true")

    def also_positive(self) -> dict[str, int]:
        """Further values that must be at least 1, by their keys."""
        return {}


@dataclass(frozen=True, kw_only=True)
class TinySettings(RunSettings):
    """All of pretraining's `tiny.yaml` or `small.yaml` but its `run:` section. `model` goes to `NemotronHConfig`."""

    model: dict[str, Any]
    train: PretrainTrain
    dataset: Dataset = field(default_factory=Dataset)

    def also_positive(self) -> dict[str, int]:
        """The length of a window."""
        return {"dataset.seq_length": self.dataset.seq_length}


@dataclass(frozen=True)
class Text:
    """Prepared pretraining text that is mixed into every batch: so many windows, their loss times `weight`; or none."""

    dir: Path | None = None
    batch_size: int = 4
    seq_length: int = 128
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class SftSettings(RunSettings):
    """All of fine-tuning's `tiny.yaml` but its `run:` section. `base_dir` is what pretraining wrote."""

    base_dir: Path
    text: Text = field(default_factory=Text)

    def also_positive(self) -> dict[str, int]:
        """The windows of text."""
        return {"text.batch_size": self.text.batch_size, "text.seq_length": self.text.seq_length}
