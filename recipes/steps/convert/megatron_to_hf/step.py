# /// script
# requires-python = ">=3.10"
#
# [tool.runspec]
# schema = "1"
# name = "steps/convert/megatron_to_hf"
# description = "Export a Megatron checkpoint as a Hugging Face one with Megatron-Bridge."
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
# type = "checkpoint_megatron"
# description = "The checkpoint: the folder with latest_checkpointed_iteration.txt, or one of its iterations."
#
# [[tool.runspec.produces]]
# name = "model"
# type = "checkpoint_hf"
# description = "config.json, safetensors and the tokenizer, as transformers loads them."
#
# [[tool.runspec.parameters]]
# name = "reference"
# description = "A Hugging Face model of the same shape, whose config and tokenizer are taken: a folder or a name."
# type = "str"
#
# [[tool.runspec.parameters]]
# name = "strict"
# description = "Fail where a weight of the reference is missing."
# type = "bool"
#
# [[tool.runspec.parameters]]
# name = "trust_remote_code"
# description = "Let the reference bring code of its own."
# type = "bool"
#
# [[tool.runspec.errors]]
# pattern = "No module named 'megatron"
# cause = "Megatron-Bridge comes in NVIDIA's container images only."
# remedy = "a profile with container_image = \"nvcr.io/nvidia/nemo:26.04\""
# ///
"""Exports a Megatron checkpoint as a Hugging Face one: `AutoBridge.export_ckpt` of Megatron-Bridge, in one process."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "_shared"))

from nemo_steps import files, runner
from nemo_steps.config import Config, ConfigError, find, need, only, output_folder


def main(config: Config) -> None:
    """Load the checkpoint, and save its weights beside the reference's config and tokenizer."""
    only(config, "", ("output_dir", "base", "reference", "strict", "trust_remote_code"))
    base, output = files.find(need(config, "base", str)), output_folder(config)
    reference = find(config, "reference", str)
    from megatron.bridge import AutoBridge

    model = str(files.find(reference)) if reference and is_path(reference) else reference
    model = model or AutoBridge.get_hf_model_id_from_checkpoint(str(base))
    if not model:
        raise ConfigError("reference must be given: the checkpoint does not say which model it was made from")
    trusted = bool(find(config, "trust_remote_code", bool))
    bridge = AutoBridge.from_hf_pretrained(model, trust_remote_code=trusted)
    bridge.export_ckpt(str(base), str(output), strict=bool(find(config, "strict", bool)))
    print(f"wrote {output}")


def is_path(reference: str) -> bool:
    """True for a folder, False for a model's name on the Hugging Face hub (`owner/name`)."""
    return reference.startswith((files.BUNDLE, "/", "~", "."))


if __name__ == "__main__":
    sys.exit(runner.start("Export a Megatron checkpoint as a Hugging Face one.", main))
