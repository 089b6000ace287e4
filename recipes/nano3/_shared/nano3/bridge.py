"""Trains with Megatron-Bridge: its own recipe makes the configuration, our YAML changes single values of it.

Read against megatron-bridge 0.3.0 and 0.3.1 (`training/config.py`, `training/pretrain.py`, `training/callbacks.py`).
Megatron is imported only inside the functions that need it: it lives in the container image, not on every machine.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nano3.blend import SPLITS, Blend, read_blend
from nano3.metrics import MetricsLog
from nano3.settings import SettingsError, suggestion

if TYPE_CHECKING:
    from megatron.bridge.training.callbacks import Callback
    from megatron.bridge.training.config import ConfigContainer

OURS = {"recipe", "output_dir", "data_dir"}
TARGET = "_target_"

_NANO = "megatron.bridge.recipes.nemotronh.nemotron_3_nano"
EARLIER: dict[str, tuple[str, dict[str, Any]]] = {
    f"{_NANO}.nemotron_3_nano_sft_config": (
        f"{_NANO}.nemotron_3_nano_finetune_config",
        {"packed_sequence": True, "peft": None},
    ),
}
"""A recipe of Megatron-Bridge 0.3.1 → what it was called before, as images may have it, and what that is called with.

`recipes/steps/_shared` has the same for its recipes.
"""


def train(config: Mapping[str, Any]) -> int:
    """Train as the configuration says; called in every process that torchrun starts."""
    container = make_container(config)
    set_blend(container, Path(config["data_dir"]))
    return _run(container, config)


def finetune(config: Mapping[str, Any]) -> int:
    """Fine-tune on packed conversations as the configuration says; called in every process that torchrun starts.

    Megatron-Bridge's `finetune()` is its `pretrain()` after one look at `checkpoint.pretrained_checkpoint`, without
    callbacks: here both are `pretrain()`.

    Raises:
        SettingsError: there is no checkpoint to begin with, or none of the data.
    """
    from nano3.bridge_packed import use_packed

    container = make_container(config)
    require_weights(container)
    use_packed(container, Path(config["data_dir"]), Path(config["output_dir"]))
    return _run(container, config)


def make_container(config: Mapping[str, Any]) -> ConfigContainer:
    """Call `recipe._target_`, then set the values that the other sections name.

    Raises:
        SettingsError: the target does not exist, or a key is no field of its section.
    """
    for key in sorted(OURS):
        if key not in config:
            raise SettingsError(f"missing key {key!r}")
    container: ConfigContainer = _made(dict(config["recipe"]))
    for section, values in config.items():
        if section not in OURS:
            override(container, section, values, section)
    return container


def require_weights(container: ConfigContainer) -> None:
    """Raises `SettingsError` where training would begin with random weights.

    A folder without a checkpoint of Megatron's is no mistake to Megatron-Bridge: it loads nothing, and says nothing.
    """
    from megatron.bridge.training.utils.checkpoint_utils import checkpoint_exists

    base, own = container.checkpoint.pretrained_checkpoint, container.checkpoint.load
    if not any(checkpoint_exists(folder) for folder in (base, own) if folder):
        raise SettingsError(
            f"checkpoint.pretrained_checkpoint {base} holds no checkpoint of Megatron's (latest_train_state.pt and"
            " iter_<step>/): training would begin with random weights"
        )


def override(parent: object, key: str, value: object, where: str) -> None:
    """Set `parent.key`, going into mappings; what is not there already is an error, as it would have no effect.

    `recipes/steps/_shared` has the same, which travels with steps alone; a test holds the two to the same results.
    """
    if not hasattr(parent, key):
        known = [name for name in getattr(parent, "__dict__", {}) if not name.startswith("_")]
        raise SettingsError(f"unknown key {where!r}{suggestion(key, known)}")
    current = getattr(parent, key)
    if not isinstance(value, Mapping) or isinstance(current, dict):
        setattr(parent, key, value)
    elif current is None:
        raise SettingsError(f"{where!r} is not set by the recipe, so nothing in it can be changed")
    else:
        for name, entry in value.items():
            override(current, name, entry, f"{where}.{name}")


def metrics_callback(output_dir: Path) -> Callback:
    """A callback that writes the losses to `metrics.jsonl`, in the one process that knows them."""
    from megatron.bridge.training.callbacks import Callback, CallbackContext

    class WriteMetrics(Callback):  # type: ignore[misc]  # Megatron ships no types
        """Writes every `logger.log_interval` steps, and after each validation."""

        def __init__(self) -> None:
            self.log = MetricsLog(output_dir)
            self.measured_at, self.measured_from = time.monotonic(), -1
            self.ended_at = self.measured_at

        def on_train_step_start(self, context: CallbackContext) -> None:
            """Leave out what was between two steps: validation, a checkpoint."""
            self.measured_at += time.monotonic() - self.ended_at

        def on_train_step_end(self, context: CallbackContext) -> None:
            """Write the training loss; `train_state.step` is raised only after this call."""
            self._tell(context, context.state.train_state.step + 1)
            self.ended_at = time.monotonic()

        def _tell(self, context: CallbackContext, step: int) -> None:
            configuration = context.state.cfg
            if self.measured_from < 0:
                self.measured_at, self.measured_from = time.monotonic(), step
                return
            if step % configuration.logger.log_interval or not _is_writer(configuration):
                return
            loss = _loss(context.loss_dict)  # which waits for the GPU
            steps, elapsed = step - self.measured_from, time.monotonic() - self.measured_at
            tokens = configuration.train.global_batch_size * configuration.model.seq_length
            record: dict[str, float | int] = {"step": step, "total_steps": configuration.train.train_iters}
            if loss is not None:
                record["loss"] = loss
            record["tokens_per_second"] = round(tokens * steps / elapsed, 1)
            self.log.write(record)
            self.measured_at, self.measured_from = time.monotonic(), step

        def on_eval_end(self, context: CallbackContext) -> None:
            """Write the validation loss."""
            loss = _loss(context.total_loss_dict)
            if loss is not None and _is_writer(context.state.cfg):
                self.log.write({"step": context.state.train_state.step, "val_loss": loss})

    return WriteMetrics()


def _run(container: ConfigContainer, config: Mapping[str, Any]) -> int:
    from megatron.bridge.training.gpt_step import forward_step
    from megatron.bridge.training.pretrain import pretrain

    pretrain(container, forward_step, **_callbacks(Path(config["output_dir"])))
    return 0


def _callbacks(output_dir: Path) -> dict[str, list[Callback]]:
    """What `pretrain` is given; nothing, which is said, by a Megatron-Bridge that has no callbacks yet."""
    try:
        return {"callbacks": [metrics_callback(output_dir)]}
    except ImportError:
        _say("this Megatron-Bridge has no callbacks: the losses are in its own log, and not in metrics.jsonl")
        return {}


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
    except SettingsError:
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
        raise SettingsError(f"recipe.{TARGET} {target!r} cannot be imported here: {error}") from error


def set_blend(container: ConfigContainer, data_dir: Path) -> None:
    """Train on the dataset in `data_dir`, in Megatron's form of a split: its prefixes and its weights, or None.

    Raises:
        SettingsError: `data_dir` is no whole dataset.
    """
    try:
        blends = read_blend(data_dir / "blend.json")
    except (OSError, ValueError) as error:
        raise SettingsError(f"data_dir {data_dir} holds no whole dataset: {error}") from error
    container.dataset.blend = None
    container.dataset.split = None
    container.dataset.blend_per_split = [_megatron_form(blends[split]) for split in SPLITS]


def _megatron_form(blend: Blend) -> tuple[list[str], list[float]] | None:
    return ([str(prefix) for _, prefix in blend], [weight for weight, _ in blend]) if blend else None


def _is_writer(configuration: ConfigContainer) -> bool:
    """The last pipeline stage knows the loss: the first process without pipelining, else the last process."""
    import torch.distributed as dist

    stages = configuration.model.pipeline_model_parallel_size
    return bool(dist.get_rank() == (0 if stages == 1 else dist.get_world_size() - 1))


def _loss(losses: Mapping[str, Any] | None) -> float | None:
    return float(losses["lm loss"]) if losses and "lm loss" in losses else None
