# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "jinja2==3.1.6",
#   "matplotlib==3.11.2",
#   "numpy==2.4.6",
#   "pyyaml==6.0.3",
#   "ray==2.60.0",
#   "safetensors==0.8.0",
#   "tokenizers==0.23.3",
#   "torch==2.13.0",
#   "transformers==5.23.0",
# ]
#
# [tool.runspec]
# schema = "1"
# name = "nano3/rl"
# description = "Reinforcement learning of Nemotron 3 Nano by GRPO: at full size with NeMo-RL, or tiny on two cores."
# kind = "train"
# image = "nvcr.io/nvidia/nemo-rl:v0.6.0"
# download = "about 350 MB with the CPU build of torch; several GB with the CUDA build"
#
# [tool.runspec.run]
# launch = "ray"
#
# [tool.runspec.config]
# dir = "./config"
# default = "default"
#
# [tool.runspec.resources]
# nodes = 32
# gpus_per_node = 8
#
# [[tool.runspec.consumes]]
# name = "data"
# type = "training_jsonl"
# description = "What nano3/data/prep/rl wrote: train.jsonl and valid.jsonl, rows of input and output."
# required = true
#
# [[tool.runspec.consumes]]
# name = "base"
# type = "model"
# description = "The fine-tuned model, of nano3/sft; hf/ with a chat template is read."
# required = true
#
# [[tool.runspec.produces]]
# name = "model"
# type = "model"
# description = "Checkpoints and metrics.jsonl; the tiny path also writes hf/ and reward.png."
#
# [[tool.runspec.parameters]]
# name = "grpo.max_num_steps"
# description = "How many steps."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "grpo.num_prompts_per_step"
# description = "Prompts of a step."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "grpo.num_generations_per_prompt"
# description = "Answers to each of them, which are held to each other."
# type = "int"
# min = 2
#
# [[tool.runspec.parameters]]
# name = "checkpointing.checkpoint_dir"
# description = "Where checkpoints are written, and a run is resumed from."
# type = "str"
# ///
"""Trains by GRPO: a configuration with `nemo_rl` goes to NeMo-RL's own program, one without to the tiny path on Ray."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "_shared"))

from nano3.settings import build, loading, start


def main(config: dict[str, Any]) -> int:
    """Train; the exit status."""
    if "nemo_rl" in config:
        from nano3 import nemo_rl

        return nemo_rl.train(build(nemo_rl.NemoRlSettings, config))
    with loading():
        from nano3.grpo.loop import train
        from nano3.grpo.settings import RlSettings
    return train(build(RlSettings, config))


if __name__ == "__main__":
    sys.exit(start("Reinforcement learning of Nemotron 3 Nano.", main))
