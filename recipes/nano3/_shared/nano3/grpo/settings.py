"""What the tiny path of reinforcement learning can be told; names are NeMo-RL's where it has one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from nano3.settings import SettingsError


@dataclass(frozen=True)
class Grpo:
    """How many prompts and answers a step has, and how far a step may lead away.

    `updates_per_step` passes are made over the answers of a step: from the second on they are of an older policy, and
    the ratio is clipped at `1 - ratio_clip_min` and `1 + ratio_clip_max`. `reference_policy_kl_penalty` draws the
    policy to the model that it began with; 0 needs no such model. `normalize_rewards` divides advantages by the
    deviation of their group.
    """

    max_num_steps: int
    num_prompts_per_step: int = 16
    num_generations_per_prompt: int = 8
    updates_per_step: int = 2
    ratio_clip_min: float = 0.2
    ratio_clip_max: float = 0.2
    reference_policy_kl_penalty: float = 0.0
    normalize_rewards: bool = True
    val_period: int = 25
    seed: int = 42


@dataclass(frozen=True)
class Generation:
    """How answers are drawn: `workers` actors of Ray, one processor core each."""

    max_new_tokens: int = 6
    temperature: float = 1.0
    workers: int = 2


@dataclass(frozen=True)
class Optimizer:
    """AdamW without decay, at a rate that goes from `lr` to `min_lr` in a cosine; the gradient is clipped to a norm."""

    lr: float = 0.001
    min_lr: float = 0.0
    warmup_steps: int = 5
    clip_grad: float = 1.0


@dataclass(frozen=True)
class Checkpoint:
    """Where the state goes, and is resumed from where there is one already; `keep_top_k` of them are kept."""

    checkpoint_dir: Path
    save_period: int = 25
    keep_top_k: int = 2


@dataclass(frozen=True)
class RlSettings:
    """All of `tiny.yaml` but its `run:` section."""

    output_dir: Path
    data_dir: Path
    model_dir: Path
    grpo: Grpo
    checkpointing: Checkpoint
    generation: Generation = field(default_factory=Generation)
    optimizer: Optimizer = field(default_factory=Optimizer)

    def __post_init__(self) -> None:
        positive = {
            "grpo.max_num_steps": self.grpo.max_num_steps,
            "grpo.num_prompts_per_step": self.grpo.num_prompts_per_step,
            "grpo.updates_per_step": self.grpo.updates_per_step,
            "grpo.val_period": self.grpo.val_period,
            "generation.max_new_tokens": self.generation.max_new_tokens,
            "generation.workers": self.generation.workers,
            "checkpointing.save_period": self.checkpointing.save_period,
            "checkpointing.keep_top_k": self.checkpointing.keep_top_k,
        }
        for name, value in positive.items():
            if value < 1:
                raise SettingsError(f"{name} must be at least 1, not {value}")
        if self.grpo.num_generations_per_prompt < 2:
            raise SettingsError("grpo.num_generations_per_prompt must be at least 2: answers are held to each other")
        if self.generation.temperature <= 0:
            raise SettingsError(f"generation.temperature must be above 0, not {self.generation.temperature}")
