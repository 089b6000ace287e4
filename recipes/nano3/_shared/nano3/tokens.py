"""Makes the tokenizer of a dataset: one that is named, or a byte-level BPE trained on the text itself."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from nano3.settings import SettingsError

PAD, BOS, EOS = "<|pad|>", "<|bos|>", "<|eos|>"
SETTINGS = "tokenizer_config.json"


def train_tokenizer(texts: Iterable[str], vocabulary_size: int) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE; every byte is in it, so no text is out of vocabulary."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        special_tokens=[PAD, BOS, EOS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=PAD, bos_token=BOS, eos_token=EOS)


def load_tokenizer(path: str) -> PreTrainedTokenizerFast:
    """Load a tokenizer from a folder or, by its name, from the Hugging Face hub.

    Raises:
        SettingsError: it cannot be loaded, is not a fast one, or has no end-of-text token.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError) as error:
        raise SettingsError(f"tokenizer.path {path!r} cannot be loaded: {error}") from error
    if not isinstance(tokenizer, PreTrainedTokenizerFast) or tokenizer.eos_token_id is None:
        raise SettingsError(f"tokenizer.path {path!r} must be a fast tokenizer with an end-of-text token")
    return tokenizer


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write the files that `AutoTokenizer.from_pretrained(folder)` reads, of transformers 5 and of 4.

    Data are prepared with the one and read with the other: Megatron-Bridge 0.3.1, and so the image, has transformers 4.
    That knows neither the name that 5 writes for the class nor a list under `extra_special_tokens`; 5 reads both ways.

    `recipes/steps/_shared` has the same, which travels with steps alone; a test holds the two to the same results.
    """
    tokenizer.save_pretrained(folder)
    file = Path(folder) / SETTINGS
    said: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if said.get("tokenizer_class") == "TokenizersBackend":
        said["tokenizer_class"] = "PreTrainedTokenizerFast"
    if isinstance(said.get("extra_special_tokens"), list):
        said["additional_special_tokens"] = said.pop("extra_special_tokens")
    file.write_text(json.dumps(said, indent=2, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
