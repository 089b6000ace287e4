# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "jinja2==3.1.6",
#   "peft==0.21.2",
#   "pyyaml==6.0.3",
#   "torch==2.13.0",
#   "transformers==5.23.0",
# ]
#
# [tool.runspec]
# schema = "1"
# name = "steps/convert/merge_lora"
# description = "Merge a LoRA adapter into the model that it was trained on, with peft or Megatron-Bridge."
# kind = "tool"
# tags = ["lora", "peft"]
# image = "nvcr.io/nvidia/nemo:25.11.nemotron_3_nano"
# download = "about 300 MB with the CPU build of torch; several GB with the CUDA build"
#
# [tool.runspec.run]
# launch = "direct"
#
# [tool.runspec.config]
# dir = "./config"
# default = "default"
#
# [tool.runspec.resources]
# nodes = 1
# gpus_per_node = 1
#
# [[tool.runspec.consumes]]
# name = "adapter"
# type = "checkpoint_lora"
# description = "The adapter, of peft (adapter_config.json) or of Megatron-Bridge (iter_<step>)."
#
# [[tool.runspec.consumes]]
# name = "base"
# type = "checkpoint_hf"
# description = "The model that the adapter was trained on."
#
# [[tool.runspec.consumes]]
# name = "megatron"
# type = "checkpoint_megatron"
# description = "The model's weights, for an adapter of Megatron-Bridge; those of base, where none is given."
# required = false
#
# [[tool.runspec.produces]]
# name = "model"
# type = "checkpoint_hf"
# description = "The merged model with its tokenizer, as transformers loads it."
#
# [[tool.runspec.parameters]]
# name = "dtype"
# description = "The type of the merged weights; auto: as the model's."
# choices = ["auto", "bfloat16", "float16", "float32"]
#
# [[tool.runspec.parameters]]
# name = "device"
# description = "Where the weights are merged; auto: on a GPU, where there is one."
# choices = ["auto", "cpu", "cuda"]
#
# [[tool.runspec.errors]]
# pattern = "size mismatch for"
# cause = "The adapter was trained on a model of other sizes."
# remedy = "run.base.path=… the model that adapter_config.json names"
#
# [[tool.runspec.errors]]
# pattern = "CUDA out of memory"
# cause = "The model does not fit into one GPU's memory."
# remedy = "device=cpu"
#
# [[tool.runspec.errors]]
# pattern = "No module named 'megatron"
# cause = "The adapter is of Megatron-Bridge, which comes in NVIDIA's container images only."
# remedy = "a profile with container_image = \"nvcr.io/nvidia/nemo:26.04\""
# ///
"""Merges a LoRA adapter into the model that it was trained on; what it writes is a plain checkpoint.

An adapter of peft is merged by peft, one of Megatron-Bridge by Megatron-Bridge.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "_shared"))

from nemo_steps import bridge_lora, files, models, runner, tokens
from nemo_steps.config import Config, ConfigError, find, need, only, output_folder

DTYPES = ("auto", "bfloat16", "float16", "float32")
DEVICES = ("auto", "cpu", "cuda")


def main(config: Config) -> None:
    """Load the model, add the adapter's weights, and write the sum with the model's tokenizer."""
    only(config, "", ("output_dir", "adapter", "base", "megatron", "dtype", "device"))
    only(config, "base", ("path", "name"))
    output, adapter = output_folder(config), files.find(need(config, "adapter", str))
    iteration = models.newest(adapter)
    base, layers = of_megatron(config, iteration, output) if iteration else of_peft(config, adapter, output)
    told = {"base": base, "adapter": str(adapter), "layers": layers}
    (output / "merged.json").write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    print(f"merged {layers} layers of {adapter.name} into {base}")
    print(f"wrote {output}")


def of_megatron(config: Config, iteration: Path, output: Path) -> tuple[str, int]:
    """Merge an adapter of Megatron-Bridge; returns the model that it was merged into, and how many layers had one."""
    base, weights = models.base(config), find(config, "megatron", str)
    return base, bridge_lora.merge(iteration, base, files.find(weights) if weights else None, output)


def of_peft(config: Config, adapter: Path, output: Path) -> tuple[str, int]:
    """Merge an adapter of peft; returns the model that it was merged into, and how many layers had one."""
    dtype, device = choice(config, "dtype", DTYPES), choice(config, "device", DEVICES)
    base = model_of(config, adapter)
    merged, layers = merge(base, adapter, dtype, device)
    merged.save_pretrained(output)
    save_tokenizer(base, adapter, output)
    return base, layers


def merge(base: str, adapter: Path, dtype: str, device: str) -> tuple[Any, int]:
    """The model with the adapter's weights in its own, and how many layers that changed.

    Raises:
        ConfigError: the adapter fits no layer of the model.
    """
    import torch
    from peft import PeftModel
    from peft.tuners.lora import LoraLayer
    from transformers import AutoModelForCausalLM

    where = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    model = AutoModelForCausalLM.from_pretrained(base, dtype=dtype, device_map=where if where == "cuda" else None)
    try:
        adapted = PeftModel.from_pretrained(model, adapter)
    except (ValueError, RuntimeError) as error:
        raise ConfigError(f"the adapter {adapter} does not fit {base}: {error}") from error
    layers = sum(isinstance(module, LoraLayer) for module in adapted.modules())
    return adapted.merge_and_unload(safe_merge=True), layers


def model_of(config: Config, adapter: Path) -> str:
    """The model that the adapter is for: the one that is named, else the one that the adapter names.

    Raises:
        ConfigError: neither; or the adapter's folder is none.
    """
    settings = adapter / "adapter_config.json"
    if not settings.is_file():
        raise ConfigError(f"{adapter} holds no adapter: neither adapter_config.json (peft) nor iter_<step> (Megatron)")
    if path := find(config, "base.path", str):
        return models.path_or_name(path)
    named = find(config, "base.name", str) or json.loads(settings.read_text("utf-8")).get("base_model_name_or_path")
    if not named:
        raise ConfigError("base.path must be given: the adapter does not name its model")
    return str(named)


def save_tokenizer(base: str, adapter: Path, output: Path) -> None:
    """Write the tokenizer: the adapter's, which may have tokens of its own, else the model's."""
    from transformers import AutoTokenizer

    own = (adapter / "tokenizer_config.json").is_file()
    tokens.save(AutoTokenizer.from_pretrained(adapter if own else base), output)


def choice(config: Config, key: str, choices: tuple[str, ...]) -> str:
    """A value that is one of several.

    Raises:
        ConfigError: it is none of them.
    """
    value = need(config, key, str)
    if value not in choices:
        raise ConfigError(f"{key} must be one of {', '.join(choices)}, not {value!r}")
    return value


if __name__ == "__main__":
    sys.exit(runner.start("Merge a LoRA adapter into its model.", main))
