"""Writes the trained model as a Hugging Face checkpoint with its tokenizer."""

from __future__ import annotations

import shutil
from pathlib import Path

from transformers import NemotronHForCausalLM

from nano3.files import publish_folder, staging


def export(model: NemotronHForCausalLM, tokenizer_dir: Path, final: Path) -> None:
    """Put the whole checkpoint in the place of `final`."""
    with staging(final.parent, final.name) as built:
        whole = built / final.name
        model.save_pretrained(whole)
        for file in tokenizer_dir.iterdir():
            shutil.copyfile(file, whole / file.name)
        publish_folder(whole, final)
