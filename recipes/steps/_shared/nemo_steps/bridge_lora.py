"""Merges adapters that Megatron-Bridge has trained, with Megatron-Bridge 0.3.1: in one process, on the processor.

Such a checkpoint holds the adapter's weights alone, and in `run_config.yaml` how the adapter was made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from nemo_steps.config import ConfigError

FIELDS = ("target_modules", "exclude_modules", "dim", "alpha", "dropout", "dropout_position", "a2a_experimental")
"""Fields of Megatron-Bridge's `LoRA` that tell which weights there are, and how they count."""


def settings(iteration: Path) -> dict[str, Any]:
    """What `LoRA` is made with, so that it has the modules that the checkpoint has weights for.

    Raises:
        ConfigError: the checkpoint does not say, or was not made with `LoRA`.
    """
    file = iteration / "run_config.yaml"
    if not file.is_file():
        raise ConfigError(f"{iteration} holds no run_config.yaml, so nothing says how its adapter was made")
    said = yaml.safe_load(file.read_text(encoding="utf-8")).get("peft") or {}
    kind = str(said.get("_target_", "")).rpartition(".")[2]
    if kind != "LoRA":
        raise ConfigError(f"{file} is of {kind or 'a model without an adapter'}: adapters of LoRA alone can be merged")
    return {key: said[key] for key in FIELDS if said.get(key) is not None}


def merge(iteration: Path, base: str, megatron: Path | None, output: Path) -> int:
    """Write the merged model as a Hugging Face checkpoint; returns how many modules had an adapter.

    Args:
        iteration: the adapter: one iteration of its checkpoint.
        base: the model as a Hugging Face checkpoint, whose config and tokenizer the merged one gets.
        megatron: a Megatron checkpoint with the weights that the adapter was trained on; None: those of `base`.
        output: the folder that is written.
    """
    wanted = settings(iteration)
    from megatron.bridge import AutoBridge
    from megatron.bridge.peft.lora import LoRA
    from megatron.bridge.training.model_load_save import temporary_distributed_context

    bridge, lora = AutoBridge.from_hf_pretrained(base), LoRA(**wanted)
    with temporary_distributed_context(backend="gloo"):
        if megatron:
            model = bridge.load_megatron_model(str(megatron), wrap_with_ddp=False)
        else:
            model = bridge.to_megatron_model(wrap_with_ddp=False, use_cpu_initialization=True)
        adapted = lora(model, training=False)
        _load(adapted, lora, iteration)
        bridge.save_hf_pretrained(adapted, str(output), merge_adapter_weights=True)
    return sum(name.endswith(".adapter") for name, _ in adapted[0].named_modules())


def _load(model: Any, lora: Any, iteration: Path) -> None:
    """Read the adapter's weights into a model that has its modules."""
    from megatron.bridge.training.checkpointing import apply_peft_adapter_filter_to_state_dict
    from megatron.core import dist_checkpointing

    places = apply_peft_adapter_filter_to_state_dict({"model": model[0].sharded_state_dict()}, lora)
    read = dist_checkpointing.load(places, str(iteration))
    model[0].load_state_dict(read["model"], strict=False)
