"""The policy: a causal model of transformers with its tokenizer, which answers prompts and says how likely answers are.

Rows are filled up on the right: a model that looks back alone does not see what comes after. There is no cache: with
answers of a few tokens it would save little, and transformers has none for this model's Mamba layers on a processor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from nano3.settings import SettingsError

logging.set_verbosity_error()  # it would say in every process that the fast kernels, which need a GPU, are missing
logging.disable_progress_bar()


@dataclass
class Rollout:
    """Answers to prompts, a row each.

    Args:
        tokens: prompt and answer, filled up on the right. `mask`: 1 for each token of the answer, its end included.
        log_probs: of the tokens of the answer at the temperature it was drawn with; 0 elsewhere. One column less than
            `tokens`: the first token has none.
        texts: the answers without their end.
    """

    tokens: torch.Tensor
    mask: torch.Tensor
    log_probs: torch.Tensor
    texts: list[str]


def check_model(folder: Path) -> None:
    """Raises `SettingsError` where a folder holds no model that answers; before actors load it, which cannot say so."""
    if not (folder / "config.json").is_file():
        raise SettingsError(f"model_dir {folder} holds no Hugging Face checkpoint")
    try:
        has_template = bool(AutoTokenizer.from_pretrained(folder).chat_template)
    except (OSError, ValueError) as error:
        raise SettingsError(f"model_dir {folder} holds no tokenizer: {error}") from error
    if not has_template:
        raise SettingsError(f"model_dir {folder}: its tokenizer has no chat template; fine-tune it first")


class Policy:
    """A model that answers. `folder`: a Hugging Face checkpoint whose tokenizer has a chat template.

    It computes on the GPU that this process sees, where there is one; what it is given and returns is not there.
    """

    def __init__(self, folder: Path) -> None:
        torch.set_num_threads(1)
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.model.to("cuda" if torch.cuda.is_available() else "cpu")
        if hasattr(self.model, "set_experts_implementation"):
            self.model.set_experts_implementation("eager")  # the grouped kernel rounds differently for other batches
        self.end: int = self.tokenizer.eos_token_id

    @torch.no_grad()
    def answer(self, prompts: Sequence[str], *, longest: int, temperature: float, seed: int | None) -> Rollout:
        """Draws an answer to each prompt; without a seed the likeliest token each time."""
        chance = None if seed is None else torch.Generator().manual_seed(seed)
        encoded = [self._encoded(prompt) for prompt in prompts]
        starts = torch.tensor([len(row) for row in encoded])
        tokens = torch.full((len(encoded), int(starts.max()) + longest), self.end)
        for number, row in enumerate(encoded):
            tokens[number, : len(row)] = torch.tensor(row)
        rows, mask = torch.arange(len(encoded)), torch.zeros_like(tokens)
        log_probs = torch.zeros(len(encoded), tokens.shape[1] - 1)
        going = torch.ones(len(encoded), dtype=torch.bool)
        for place in range(longest):
            at, live = starts + place, rows[going]
            if not len(live):
                break
            likely = self._following(tokens[live, : int(at[live].max())], at[live] - 1, temperature)
            drawn = likely.argmax(-1) if chance is None else torch.multinomial(likely.exp(), 1, generator=chance)[:, 0]
            tokens[live, at[live]] = drawn
            mask[live, at[live]] = 1
            log_probs[live, at[live] - 1] = likely.gather(1, drawn[:, None])[:, 0]
            going[live] = drawn != self.end
        return Rollout(tokens, mask, log_probs, [self._text(tokens[row], mask[row]) for row in rows])

    def log_probs(self, tokens: torch.Tensor, temperature: float) -> torch.Tensor:
        """How likely each token but the first is after those before it."""
        return self._log_probs(tokens[:, :-1], temperature).gather(2, tokens[:, 1:, None])[:, :, 0]

    def weights(self) -> dict[str, torch.Tensor]:
        """A copy of the weights, on the processor's side: whoever takes them may see no GPU."""
        return {name: value.detach().to("cpu", copy=True) for name, value in self.model.state_dict().items()}

    def _following(self, tokens: torch.Tensor, last: torch.Tensor, temperature: float) -> torch.Tensor:
        """How likely each token is after the one at `last` of each row; equal rows are computed once."""
        rows, same = torch.cat([tokens, last[:, None]], dim=1).unique(dim=0, return_inverse=True)
        found = self._log_probs(rows[:, :-1], temperature)[torch.arange(len(rows)), rows[:, -1]]
        return found[same]

    def _log_probs(self, tokens: torch.Tensor, temperature: float) -> torch.Tensor:
        logits = self.model(input_ids=tokens.to(self.model.device), use_cache=False).logits.float()
        return (logits / temperature).log_softmax(-1).cpu()

    def _encoded(self, prompt: str) -> list[int]:
        turns = [{"role": "user", "content": prompt}]
        found = self.tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=True)
        return list(found["input_ids"])

    def _text(self, tokens: torch.Tensor, mask: torch.Tensor) -> str:
        said = [token for token in tokens[mask.bool()].tolist() if token != self.end]
        return str(self.tokenizer.decode(said, skip_special_tokens=False)).strip()
