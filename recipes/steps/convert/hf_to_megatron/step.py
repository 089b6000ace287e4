# /// script
# requires-python = ">=3.10"
#
# [tool.runspec]
# schema = "1"
# name = "steps/convert/hf_to_megatron"
# description = "Convert a Hugging Face checkpoint to Megatron's format with Megatron-Bridge."
# kind = "tool"
# tags = ["megatron-bridge"]
# image = "nvcr.io/nvidia/nemo:26.04"
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
# name = "base"
# type = "checkpoint_hf"
# description = "The model: config.json, weights and tokenizer; or hf:// and a name of the hub."
#
# [[tool.runspec.produces]]
# name = "model"
# type = "checkpoint_megatron"
# description = "The same weights as a distributed checkpoint."
#
# [[tool.runspec.parameters]]
# name = "dtype"
# description = "The type of the weights."
# choices = ["bfloat16", "float16", "float32"]
#
# [[tool.runspec.parameters]]
# name = "trust_remote_code"
# description = "Let the checkpoint bring code of its own."
# type = "bool"
#
# [[tool.runspec.errors]]
# pattern = "No module named 'megatron"
# cause = "Megatron-Bridge comes in NVIDIA's container images only."
# remedy = "a profile with container_image = \"nvcr.io/nvidia/nemo:26.04\""
# ///
"""Converts a Hugging Face checkpoint to Megatron's format: Megatron-Bridge's `AutoBridge.import_ckpt`, in a process."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "_shared"))

from nemo_steps import models, runner
from nemo_steps.config import Config, ConfigError, find, need, only, output_folder

DTYPES = ("bfloat16", "float16", "float32")


def main(config: Config) -> None:
    """Load the model, and save its weights as Megatron does."""
    only(config, "", ("output_dir", "base", "dtype", "trust_remote_code"))
    dtype = need(config, "dtype", str)
    if dtype not in DTYPES:
        raise ConfigError(f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
    base, output = models.path_or_name(need(config, "base", str)), output_folder(config)
    import torch
    from megatron.bridge import AutoBridge

    trusted = bool(find(config, "trust_remote_code", bool))
    AutoBridge.import_ckpt(base, str(output), torch_dtype=getattr(torch, dtype), trust_remote_code=trusted)
    print(f"wrote {output}")


if __name__ == "__main__":
    sys.exit(runner.start("Convert a Hugging Face checkpoint to Megatron's format.", main))
