"""The actors of Ray: one draws answers and rewards them, one learns from them. Weights go by Ray's object store."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nano3.tokens import save_tokenizer

from .policy import Policy, Rollout
from .settings import Optimizer, RlSettings
from .task import Question, advantages, reward

State = dict[str, Any]


class RolloutActor:
    """Answers questions with the weights that it was given last."""

    def __init__(self, settings: RlSettings) -> None:
        self.settings = settings
        self.policy = Policy(settings.model_dir)
        self.policy.model.eval()

    def take(self, weights: State) -> None:
        """The learner's weights."""
        self.policy.model.load_state_dict(weights)

    def roll_out(self, questions: Sequence[Question], count: int, seed: int | None) -> tuple[Rollout, list[float]]:
        """`count` answers to each question, side by side, with their rewards; without a seed the likeliest."""
        asked = [question for question in questions for _ in range(count)]
        drawn, generation = [question.prompt for question in asked], self.settings.generation
        rollout = self.policy.answer(
            drawn, longest=generation.max_new_tokens, temperature=generation.temperature, seed=seed
        )
        return rollout, [reward(text, each.answer) for text, each in zip(rollout.texts, asked, strict=True)]


class LearnerActor:
    """Holds the policy that learns, its optimizer and, where there is a KL penalty, the model it began with."""

    def __init__(self, settings: RlSettings) -> None:
        self.settings = settings
        self.policy = Policy(settings.model_dir)
        self.policy.model.train()
        needs_reference = settings.grpo.reference_policy_kl_penalty > 0
        self.reference = Policy(settings.model_dir) if needs_reference else None
        learned = [weight for weight in self.policy.model.parameters() if weight.requires_grad]
        self.optimizer = torch.optim.AdamW(learned, lr=settings.optimizer.lr, betas=(0.9, 0.95), weight_decay=0.0)

    def weights(self) -> State:
        """The weights that answers are drawn with next."""
        return self.policy.weights()

    def state(self) -> State:
        """All that a resumed run needs of it."""
        return {"model": self.policy.weights(), "optimizer": self.optimizer.state_dict()}

    def restore(self, state: State) -> None:
        """Goes on from a state."""
        self.policy.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])

    def save_model(self, folder: str) -> None:
        """Writes a Hugging Face checkpoint with its tokenizer."""
        self.policy.model.save_pretrained(Path(folder))
        save_tokenizer(self.policy.tokenizer, Path(folder))

    def learn(self, step: int, parts: Sequence[tuple[Rollout, list[float]]]) -> dict[str, float]:
        """One step of GRPO on the answers of all actors; what there is to say of it."""
        grpo, optimizer = self.settings.grpo, self.settings.optimizer
        rewards = [value for _, values in parts for value in values]
        gains = torch.tensor(advantages(rewards, grpo.num_generations_per_prompt, grpo.normalize_rewards))
        tokens, mask, old = (_joined(parts, name) for name in ("tokens", "mask", "log_probs"))
        useful = gains != 0  # where all answers of a group are as good there is nothing to be learned
        said = {"reward": sum(rewards) / len(rewards), "useful": useful.float().mean().item()}
        said["tokens"] = float(mask.sum())
        if not useful.any():
            return {**said, "loss": 0.0, "kl": 0.0, "clipped": 0.0, "grad_norm": 0.0, "rows": 0}
        batch = distinct(tokens[useful], mask[useful], old[useful], gains[useful])
        said["rows"] = len(batch.tokens)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(step, grpo.max_num_steps, optimizer)
        for _ in range(grpo.updates_per_step):
            loss, also = self._loss(batch)
            loss.backward()  # type: ignore[no-untyped-call]
            norm = torch.nn.utils.clip_grad_norm_(self.policy.model.parameters(), optimizer.clip_grad)
            self.optimizer.step()
            self.optimizer.zero_grad()
        return {**said, **also, "loss": loss.item(), "grad_norm": norm.item()}

    def _loss(self, batch: Batch) -> tuple[torch.Tensor, dict[str, float]]:
        """The clipped objective per token of the answers, with the KL penalty where there is one."""
        grpo, temperature = self.settings.grpo, self.settings.generation.temperature
        counted, gains = batch.mask[:, 1:] * batch.times[:, None], batch.gains[:, None]
        new = self.policy.log_probs(batch.tokens, temperature)
        ratio = ((new - batch.old) * batch.mask[:, 1:]).exp()
        clipped = ratio.clamp(1 - grpo.ratio_clip_min, 1 + grpo.ratio_clip_max)
        objective = torch.minimum(ratio * gains, clipped * gains)
        kl = torch.zeros_like(new)
        if self.reference is not None:
            with torch.no_grad():
                before = self.reference.log_probs(batch.tokens, temperature)
            apart = (before - new) * batch.mask[:, 1:]
            kl = apart.exp() - apart - 1
        loss = ((grpo.reference_policy_kl_penalty * kl - objective) * counted).sum() / counted.sum()
        is_clipped = ((ratio != clipped) * counted).sum() / counted.sum()
        return loss, {"kl": ((kl * counted).sum() / counted.sum()).item(), "clipped": is_clipped.item()}


def learning_rate(step: int, steps: int, optimizer: Optimizer) -> float:
    """The rate of `step`, counted from 0: a linear warm-up, then a cosine down to `min_lr`."""
    warmup = min(1.0, (step + 1) / max(1, optimizer.warmup_steps))
    share = (1 + math.cos(math.pi * min(1.0, step / steps))) / 2
    return warmup * (optimizer.min_lr + (optimizer.lr - optimizer.min_lr) * share)


@dataclass
class Batch:
    """Answers, each of them once, with its advantage and how many `times` it was drawn."""

    tokens: torch.Tensor
    mask: torch.Tensor
    old: torch.Tensor
    gains: torch.Tensor
    times: torch.Tensor


def distinct(tokens: torch.Tensor, mask: torch.Tensor, old: torch.Tensor, gains: torch.Tensor) -> Batch:
    """A batch of rows. Equal answers to a prompt have equal advantages: one that counts twice is as good as two."""
    width = int(mask.any(0).nonzero().max()) + 1
    tokens, mask, old = tokens[:, :width], mask[:, :width].float(), old[:, : width - 1]
    rows, same, times = tokens.unique(dim=0, return_inverse=True, return_counts=True)
    first = torch.full((len(rows),), len(tokens)).scatter_reduce(0, same, torch.arange(len(tokens)), "amin")
    return Batch(rows, mask[first], old[first], gains[first], times.float())


def _joined(parts: Sequence[tuple[Rollout, list[float]]], name: str) -> torch.Tensor:
    """A tensor of all parts, each filled up with zeros on the right to the widest."""
    tensors: list[torch.Tensor] = [getattr(rollout, name) for rollout, _ in parts]
    width = max(tensor.shape[1] for tensor in tensors)
    return torch.cat([torch.nn.functional.pad(tensor, (0, width - tensor.shape[1])) for tensor in tensors])
