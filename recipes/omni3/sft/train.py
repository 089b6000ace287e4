# /// script
# [tool.runspec]
# schema = "1"
# name = "omni3/sft"
# description = "Fine-tune Nemotron 3 Omni on images, sound and video with Megatron-Bridge."
# kind = "train"
# uses = "steps/sft/megatron_bridge"
#
# [tool.runspec.config]
# dir = "./config"
# default = "default"
#
# [tool.runspec.resources]
# nodes = 2
# gpus_per_node = 8
#
# [[tool.runspec.consumes]]
# name = "base"
# type = "checkpoint_megatron"
# description = "The checkpoint to fine-tune, as convert/hf_to_megatron makes it."
# required = true
#
# [[tool.runspec.produces]]
# name = "model"
# type = "checkpoint_megatron"
# description = "Checkpoints: iter_<step>/ and what names the latest."
#
# [[tool.runspec.parameters]]
# name = "dataset.path"
# description = "A folder in the form of Megatron-Energon."
# type = "str"
# required = true
# ///
"""Fine-tunes Nemotron 3 Omni with a recipe of Megatron-Bridge and its forward step for images, sound and video."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "steps" / "_shared"))

from nemo_steps import bridge, runner
from nemo_steps.config import Config, need, output_folder


def main(config: Config) -> None:
    """Train on `dataset.path`, beginning with the checkpoint `base`."""
    output_folder(config)
    need(config, "base", str)
    container = bridge.container_of(config)
    from megatron.bridge.training.nemotron_omni_step import forward_step

    bridge.train(container, forward_step)


if __name__ == "__main__":
    sys.exit(runner.start("Fine-tune Nemotron 3 Omni with Megatron-Bridge.", main, alone=False))
