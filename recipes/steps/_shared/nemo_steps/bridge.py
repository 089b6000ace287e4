"""Trains with Megatron-Bridge: a recipe of its own makes the configuration, our YAML changes single values of it.

Read against megatron-bridge 0.3.1 (`training/config.py`, `training/pretrain.py`, `training/callbacks.py`). Its
`finetune()` is its `pretrain()` after one look at the checkpoint's path, without callbacks: here both are `pretrain()`.
"""

from __future__ import annotations

import difflib
import importlib
import os
import time
from collections.abc import Mapping
from typing import Any

from nemo_steps import metrics
from nemo_steps.config import Config, ConfigError, find, need

OURS = frozenset({"recipe", "output_dir", "data", "base"})
"""Sections that are not Megatron-Bridge's."""

TARGET = "_target_"

_NANO = "megatron.bridge.recipes.nemotronh.nemotron_3_nano"
EARLIER: dict[str, tuple[str, dict[str, Any]]] = {
    f"{_NANO}.nemotron_3_nano_{kind}_config": (
        f"{_NANO}.nemotron_3_nano_finetune_config",
        {"packed_sequence": True, "peft": peft},
    )
    for kind, peft in (("sft", None), ("peft", "lora"))
}
"""A recipe of Megatron-Bridge 0.3.1 → what it was called before, as images may have it, and what that is called with.

`recipes/nano3/_shared` has the same for its recipe.
"""

CHECKPOINTS = "megatron.bridge.training.utils.checkpoint_utils"


def container_of(config: Config) -> Any:
    """What the function `recipe._target_` makes, with the values that the other sections name.

    Raises:
        ConfigError: there is no such function, or a key is no field of its section.
    """
    container = _made(dict(need(config, "recipe", dict)))
    for section, values in config.items():
        if section not in OURS:
            override(container, section, values, section)
    if base := find(config, "base", str):
        container.checkpoint.pretrained_checkpoint = base
        require_weights(container)
    return container


def require_weights(container: Any) -> None:
    """Raises `ConfigError` where training would begin with random weights, though a checkpoint is named.

    A folder without a checkpoint is no mistake to Megatron-Bridge: it loads nothing, and says nothing. From 0.6 on it
    takes one of Hugging Face's too.
    """
    module = importlib.import_module(CHECKPOINTS)
    is_checkpoint, is_hf = module.checkpoint_exists, getattr(module, "is_hf_checkpoint_dir", None)
    base, own = container.checkpoint.pretrained_checkpoint, container.checkpoint.load
    if not (is_checkpoint(base) or (own and is_checkpoint(own)) or (is_hf and is_hf(base))):
        raise ConfigError(
            f"base {base} holds no checkpoint of Megatron's (latest_train_state.pt and iter_<step>/): training would"
            " begin with random weights; convert/hf_to_megatron makes one"
        )


def train(container: Any, step: Any = None) -> None:
    """Train; called in every process that torchrun starts.

    Args:
        container: the configuration.
        step: the forward step, by default that of language models.
    """
    from megatron.bridge.training.gpt_step import forward_step
    from megatron.bridge.training.pretrain import pretrain

    pretrain(container, step or forward_step, **_callbacks())


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


def _made(recipe: dict[str, Any]) -> Any:
    """What the recipe makes; of one that is not there what it was called before, where that is."""
    target = str(recipe.pop(TARGET, ""))
    earlier, arguments = EARLIER.get(target, ("", {}))
    if earlier and not _is_there(target) and _is_there(earlier):
        _say(f"this Megatron-Bridge has no {target}: it is {earlier} here")
        return _import(earlier)(**{**arguments, **recipe})
    return _import(target)(**recipe)


def _is_there(target: str) -> bool:
    try:
        _import(target)
    except ConfigError:
        return False
    return True


def _say(line: str) -> None:
    """Print a line once, and not in every process."""
    if os.environ.get("RANK", "0") == "0":
        print(line, flush=True)


def _import(target: str) -> Any:
    module, _, name = target.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"recipe.{TARGET} {target!r} cannot be imported here: {error}") from error


def _callbacks() -> dict[str, list[Any]]:
    """What `pretrain` is given; nothing, which is said, by a Megatron-Bridge that has no callbacks yet."""
    try:
        return {"callbacks": [_tell()]}
    except ImportError:
        _say("this Megatron-Bridge has no callbacks: the losses are in its own log alone")
        return {}


def _tell() -> Any:
    from megatron.bridge.training.callbacks import Callback, CallbackContext

    class Tell(Callback):  # type: ignore[misc]  # Megatron ships no types
        """Tells the job's supervisor how it goes: every `logger.log_interval` steps, and after each validation."""

        def __init__(self) -> None:
            self.since, self.told = time.monotonic(), 0
            self.ended_at = self.since

        def on_train_step_start(self, context: CallbackContext) -> None:
            """Leave out what was between two steps: validation, a checkpoint."""
            self.since += time.monotonic() - self.ended_at

        def on_train_step_end(self, context: CallbackContext) -> None:
            """Append the loss and the rate; `train_state.step` is raised only after this call."""
            self._tell(context, context.state.train_state.step + 1)
            self.ended_at = time.monotonic()

        def _tell(self, context: CallbackContext, step: int) -> None:
            settings = context.state.cfg
            if step % settings.logger.log_interval or not _knows_the_loss(settings):
                return
            told: dict[str, float] = {"step": step, "total_steps": settings.train.train_iters}
            if (loss := _loss(context.loss_dict)) is not None:  # which waits for the GPU
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
