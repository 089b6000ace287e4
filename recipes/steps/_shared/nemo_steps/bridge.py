"""Trains with Megatron-Bridge: a recipe of its own makes the configuration, our YAML changes single values of it.

Read against megatron-bridge 0.3.1 (`training/config.py`, `training/pretrain.py`, `training/callbacks.py`). Its
`finetune()` is its `pretrain()` after one look at the checkpoint's path, without callbacks: here both are `pretrain()`.
"""

from __future__ import annotations

import difflib
import importlib
import time
from collections.abc import Mapping
from typing import Any

from nemo_steps import metrics
from nemo_steps.config import Config, ConfigError, find, need

OURS = frozenset({"recipe", "output_dir", "data", "base"})
"""Sections that are not Megatron-Bridge's."""

TARGET = "_target_"


def container_of(config: Config) -> Any:
    """What the function `recipe._target_` makes, with the values that the other sections name.

    Raises:
        ConfigError: there is no such function, or a key is no field of its section.
    """
    arguments = dict(need(config, "recipe", dict))
    container = _import(str(arguments.pop(TARGET, "")))(**arguments)
    for section, values in config.items():
        if section not in OURS:
            override(container, section, values, section)
    if base := find(config, "base", str):
        container.checkpoint.pretrained_checkpoint = base
    return container


def train(container: Any, step: Any = None) -> None:
    """Train; called in every process that torchrun starts.

    Args:
        container: the configuration.
        step: the forward step, by default that of language models.
    """
    from megatron.bridge.training.gpt_step import forward_step
    from megatron.bridge.training.pretrain import pretrain

    pretrain(container, step or forward_step, callbacks=[_tell()])


def override(parent: Any, key: str, value: object, where: str) -> None:
    """Set `parent.key`, going into mappings; what is not there already is an error, as it would have no effect.

    `recipes/nano3/_shared` has the same, which travels with that family alone; a test holds both to one behaviour.

    Raises:
        ConfigError: there is no such key.
    """
    if not hasattr(parent, key):
        raise ConfigError(f"unknown key {where!r}{_known(parent, key)}")
    current = getattr(parent, key)
    if not isinstance(value, Mapping) or isinstance(current, dict):
        setattr(parent, key, value)
    elif current is None:
        raise ConfigError(f"{where!r} is not set by the recipe, so nothing in it can be changed")
    else:
        for name, entry in value.items():
            override(current, name, entry, f"{where}.{name}")


def _known(parent: object, key: str) -> str:
    """The closest key that there is, or all of them."""
    names = sorted(name for name in getattr(parent, "__dict__", {}) if not name.startswith("_"))
    near = difflib.get_close_matches(key, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(names)}" if names else ""


def _import(target: str) -> Any:
    module, _, name = target.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"recipe.{TARGET} {target!r} cannot be imported here: {error}") from error


def _tell() -> Any:
    from megatron.bridge.training.callbacks import Callback, CallbackContext

    class Tell(Callback):  # type: ignore[misc]  # Megatron ships no types
        """Tells the job's supervisor how it goes: every `logger.log_interval` steps, and after each validation."""

        def __init__(self) -> None:
            self.since, self.told = time.monotonic(), 0

        def on_train_step_end(self, context: CallbackContext) -> None:
            """Append the loss and the rate; `train_state.step` is raised only after this call."""
            step, settings = context.state.train_state.step + 1, context.state.cfg
            if step % settings.logger.log_interval or not _knows_the_loss(settings):
                return
            told: dict[str, float] = {"step": step, "total_steps": settings.train.train_iters}
            if (loss := _loss(context.loss_dict)) is not None:
                told["loss"] = loss
            now = time.monotonic()
            if 0 < self.told < step:  # the first steps are slower than all that follow
                tokens = settings.train.global_batch_size * settings.model.seq_length * (step - self.told)
                told["tokens_per_second"] = round(tokens / (now - self.since), 1)
            metrics.append(**told)
            self.since, self.told = now, step

        def on_eval_end(self, context: CallbackContext) -> None:
            """Append the validation loss."""
            loss = _loss(context.total_loss_dict)
            if loss is not None and _knows_the_loss(context.state.cfg):
                metrics.append(step=context.state.train_state.step, val_loss=loss)

    return Tell()


def _knows_the_loss(settings: Any) -> bool:
    """The last pipeline stage knows it: the first process without pipelining, else the last process."""
    import torch.distributed as dist

    stages = settings.model.pipeline_model_parallel_size
    return bool(dist.get_rank() == (0 if stages == 1 else dist.get_world_size() - 1))


def _loss(losses: Mapping[str, Any] | None) -> float | None:
    return float(losses["lm loss"]) if losses and "lm loss" in losses else None
