"""The model and its optimizer: NemotronH (Mamba-2, attention, mixture of experts) from transformers, and AdamW."""

from __future__ import annotations

import importlib
import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from transformers import NemotronHConfig, NemotronHForCausalLM
from transformers.utils import logging

from nano3.settings import SettingsError, suggestion

from .data import Corpus
from .settings import Optimizer, RunSettings, TinySettings

logging.set_verbosity_error()  # it would say for every process that the fast kernels, which need a GPU, are missing
logging.disable_progress_bar()

PATTERN = "hybrid_override_pattern"
KERNELS = ("mamba_ssm", "causal_conv1d")
"""Packages whose kernels transformers takes for Mamba-2 where it can import both."""


def make_model(settings: TinySettings, corpus: Corpus) -> NemotronHForCausalLM:
    """A new model with weights from the seed. The pattern's letters: M Mamba-2, * attention, E experts, - MLP.

    Raises:
        SettingsError: `model` has a key that `NemotronHConfig` does not know.
    """
    known = {entry.name for entry in fields(NemotronHConfig)} | {PATTERN}
    for key in settings.model:
        if key not in known:
            raise SettingsError(f"unknown key 'model.{key}'{suggestion(key, known)}")
    values: dict[str, Any] = {
        "vocab_size": corpus.vocabulary_size,
        "eos_token_id": corpus.eos_token_id,
        "bos_token_id": None,
        "pad_token_id": None,
        "max_position_embeddings": settings.dataset.seq_length,
        **settings.model,
    }
    torch.manual_seed(settings.rng.seed)
    model = NemotronHForCausalLM(NemotronHConfig(**values))
    return model if settings.train.precision == "bf16" else _evenly_rounding(model)


def load_model(folder: Path) -> NemotronHForCausalLM:
    """A model that a training wrote as a Hugging Face checkpoint.

    Raises:
        SettingsError: there is none.
    """
    try:
        model = NemotronHForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    except (OSError, ValueError) as error:
        raise SettingsError(f"{folder} holds no Hugging Face checkpoint: {error}") from error
    return _evenly_rounding(model)


def described_kernels() -> str:
    """What computes Mamba-2 on a GPU, in words."""
    missing = [name for name in KERNELS if not _is_importable(name)]
    if not missing:
        return f"Mamba-2 by the kernels of {' and '.join(KERNELS)}"
    return f"Mamba-2 in plain PyTorch, which is slower and takes more memory: no {' and no '.join(missing)} here"


def _is_importable(name: str) -> bool:
    try:
        importlib.import_module(name)
    except (ImportError, OSError):  # one that was built for another torch has symbols that are not there
        return False
    return True


def _evenly_rounding(model: NemotronHForCausalLM) -> NemotronHForCausalLM:
    model.set_experts_implementation("eager")  # the grouped kernel rounds differently for different batches
    return model


def make_optimizer(model: torch.nn.Module, settings: Optimizer) -> torch.optim.AdamW:
    """AdamW; vectors (norms, biases, the state-space parameters) are not decayed."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    betas = (settings.adam_beta1, settings.adam_beta2)
    return torch.optim.AdamW(groups, lr=settings.lr, betas=betas, eps=settings.adam_eps)


def learning_rate(step: int, settings: RunSettings) -> float:
    """The rate of `step`, counted from 0: a function of its number alone."""
    top, bottom = settings.optimizer.lr, settings.optimizer.min_lr
    warmup = settings.scheduler.lr_warmup_iters
    decay = settings.scheduler.lr_decay_iters or settings.train.train_iters
    if step < warmup:
        return top * (step + 1) / warmup
    share = min(1.0, (step - warmup) / max(1, decay - warmup))
    return bottom + (top - bottom) * 0.5 * (1 + math.cos(math.pi * share))


def next_token_loss(model: torch.nn.Module, rows: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    """Cross-entropy in nats of each next token; `rows` holds one token more than the model reads."""
    rows = rows.to(next(model.parameters()).device)
    logits = model(input_ids=rows[:, :-1], use_cache=False).logits.float()
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), reduction=reduction)
