"""Causal language models of transformers: loading them with their tokenizer, rows as token ids, sizes on disk."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nemo_steps import files, tokens
from nemo_steps.config import ConfigError


def load(path: str, dtype: str, device: str) -> tuple[Any, Any]:
    """A model and its tokenizer.

    Args:
        path: a folder or a name of the Hugging Face hub.
        dtype: of the weights, `auto` as they are stored.
        device: `cpu`, `cuda`, or `auto`: spread over the GPUs there are, else on the processor.
    """
    import torch
    from transformers import AutoModelForCausalLM

    spread = "auto" if device == "auto" and torch.cuda.is_available() else None
    model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, device_map=spread)
    return (model.to("cuda") if device == "cuda" else model), tokens.load(path)


def batches(tokenizer: Any, data: str, *, tokens: int, most: int | None = None) -> list[list[int]]:
    """The token ids of each row of `data`, cut after `tokens`; at most `most` rows.

    Raises:
        ConfigError: a row has neither a text nor a conversation.
    """
    rows = itertools.islice(files.read_rows(files.row_files(data)), most)
    return [tokenizer(text)["input_ids"][:tokens] for text in texts(rows, tokenizer)]


def texts(rows: Iterator[dict[str, Any]], tokenizer: Any) -> Iterator[str]:
    """What each row says: its text, or its conversation as the tokenizer's chat template renders it."""
    for number, row in enumerate(rows, start=1):
        if isinstance(row.get("text"), str):
            yield row["text"]
        elif isinstance(row.get("messages"), list):
            yield _conversation(row["messages"], tokenizer)
        else:
            raise ConfigError(f"row {number} has neither 'text' nor 'messages'; it has {', '.join(sorted(row))}")


def size_of(path: str) -> int:
    """Bytes of the weights in a folder; 0 for a name of the Hugging Face hub."""
    return sum(file.stat().st_size for file in Path(path).glob("*.safetensors"))


def _conversation(messages: list[dict[str, Any]], tokenizer: Any) -> str:
    if tokenizer.chat_template:
        return str(tokenizer.apply_chat_template(messages, tokenize=False))
    return "\n".join(str(message.get("content", "")) for message in messages)


class Collator:
    """Rows of token ids as one batch: padded, with the ids as labels except where padding is."""

    def __init__(self, tokenizer: Any) -> None:
        self._pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id

    def __call__(self, rows: list[dict[str, list[int]]]) -> dict[str, Any]:
        """The batch."""
        import torch

        length = max(len(row["input_ids"]) for row in rows)
        ids = torch.full((len(rows), length), self._pad)
        mask = torch.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(row["input_ids"])] = torch.tensor(row["input_ids"])
            mask[place, : len(row["input_ids"])] = 1
        return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def with_layers(model: Any, kept: list[int]) -> Any:
    """A model of the same kind with some of another's layers, and all else of it.

    Args:
        kept: the numbers of the layers, from 0.
    """
    settings = copy.deepcopy(model.config)
    settings.num_hidden_layers = len(kept)
    if getattr(settings, "layer_types", None):
        settings.layer_types = [settings.layer_types[number] for number in kept]
    made = type(model)(settings).to(model.dtype)
    weights = model.state_dict()
    made.load_state_dict({name: weights[_place_before(name, kept)] for name in made.state_dict()})
    return made


def _place_before(name: str, kept: list[int]) -> str:
    """The name of a weight in the model that the layers come from."""
    return re.sub(r"\blayers\.(\d+)\.", lambda found: f"layers.{kept[int(found[1])]}.", name)
