"""Writes the trained model as a Hugging Face checkpoint with its tokenizer."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import torch
from transformers import NemotronHForCausalLM

from nano3.files import publish_folder, staging

Weights = dict[str, torch.Tensor]


def export(model: NemotronHForCausalLM, weights: Weights, files: Iterable[Path], final: Path) -> None:
    """Put the whole checkpoint in the place of `final`, with copies of the tokenizer's `files`."""
    with staging(final.parent, final.name) as built:
        whole = built / final.name
        model.save_pretrained(whole, state_dict=weights)
        for file in files:
            shutil.copyfile(file, whole / file.name)
        publish_folder(whole, final)
