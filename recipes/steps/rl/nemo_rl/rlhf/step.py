# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.runspec]
# schema = "1"
# name = "steps/rl/nemo_rl/rlhf"
# description = "Align a policy with a reward model by GRPO, with NeMo-RL."
# kind = "train"
# tags = ["rl", "grpo", "rlhf", "nemo-rl"]
# image = "nvcr.io/nvidia/nemo-rl:v0.6.0"
#
# [tool.runspec.run]
# launch = "ray"
# cmd = "uv run python {script} --config {config}"
# workdir = "/opt/nemo-rl"
#
# [tool.runspec.config]
# dir = "./config"
# default = "default"
#
# [tool.runspec.resources]
# nodes = 1
# gpus_per_node = 8
#
# [[tool.runspec.consumes]]
# name = "data"
# type = "training_jsonl"
# description = "Prompts: train.jsonl and valid.jsonl, as data_prep/rl_prep writes them."
#
# [[tool.runspec.consumes]]
# name = "base"
# type = "checkpoint_megatron"
# description = "The policy to begin with."
#
# [[tool.runspec.consumes]]
# name = "reward"
# type = "checkpoint_hf"
# description = "The reward model (Bradley-Terry): a folder, or hf:// and a name of the hub."
#
# [[tool.runspec.produces]]
# name = "model"
# type = "checkpoint_megatron"
# description = "The policy after the last step: iter_<step>/ and what names it as the latest."
#
# [[tool.runspec.parameters]]
# name = "policy.model_name"
# description = "A Hugging Face model of the policy's architecture."
# type = "str"
#
# [[tool.runspec.parameters]]
# name = "grpo.max_num_steps"
# description = "How many steps to train."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "grpo.num_prompts_per_step"
# description = "Prompts per step."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "grpo.num_generations_per_prompt"
# description = "Answers per prompt."
# type = "int"
# min = 2
#
# [[tool.runspec.parameters]]
# name = "policy.generation.colocated.enabled"
# description = "Generation shares the GPUs of training; else it has its own."
# type = "bool"
#
# [[tool.runspec.parameters]]
# name = "env.reward_model.resources.gpus_per_node"
# description = "GPUs of each node that the reward model takes."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "policy.megatron_cfg.optimizer.lr"
# description = "The learning rate."
# type = "float"
# min = 0
#
# [[tool.runspec.parameters]]
# name = "cluster.gpus_per_node"
# description = "GPUs of each node that the job uses."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "cluster.num_nodes"
# description = "Nodes that the job uses."
# type = "int"
# min = 1
#
# [[tool.runspec.models]]
# name = "Qwen/Qwen3-8B"
# description = "8 billion parameters, trained with Megatron."
# parameter = "policy.model_name"
# min_gpus = 8
#
# [[tool.runspec.errors]]
# pattern = "CUDA out of memory"
# cause = "The model, its optimizer and a batch do not fit in the GPUs' memory."
# remedy = "more nodes, larger policy.megatron_cfg.tensor_model_parallel_size, or smaller policy.train_micro_batch_size"
#
# [[tool.runspec.errors]]
# pattern = "has no /opt/nemo-rl"
# cause = "The job does not run in NeMo-RL's container."
# remedy = "a profile with container_image = \"nvcr.io/nvidia/nemo-rl:v0.6.0\""
#
# [[tool.runspec.errors]]
# pattern = "No available memory for the cache blocks"
# cause = "vLLM has no memory left for its cache."
# remedy = "policy.generation.vllm_cfg.gpu_memory_utilization=0.5, or fewer tokens"
# ///
"""Aligns a policy with a reward model by GRPO, with NeMo-RL's own program; the configuration is NeMo-RL's."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "_shared"))

from nemo_steps import models, nemo_rl, runner
from nemo_steps.config import Config, need

PROGRAM = "examples/run_grpo.py"


def main(config: Config) -> None:
    """Train the policy on what the reward model thinks of its answers."""
    judge = models.path_or_name(need(config, "reward", str))
    need(config, "env.reward_model", dict).update(model_name=judge, tokenizer={"name": judge})
    nemo_rl.train(config, PROGRAM)


if __name__ == "__main__":
    sys.exit(runner.start("Align a policy with a reward model by GRPO, with NeMo-RL.", main))
