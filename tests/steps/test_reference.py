"""The 24 steps beside those of NVIDIA-NeMo/Nemotron: what differs is what a table in docs/steps.md says, no more."""

from __future__ import annotations

import re

import pytest
from support import REPOSITORY

from nemo_runspec.runspec import ArtifactSpec, Runspec
from nemo_runspec.steps import all_steps, step_id

NANO, BRIDGE, RL = "nemo:25.11.nemotron_3_nano", "nemo:26.04", "nemo-rl:v0.6.0"
RAY = "anyscale/ray:2.49.2-py312"
MCQ = "mcq_benchmark_parquet, translated_mcq_benchmark_parquet?"
SHAPES = {
    "byob/mcq": ("direct", 0, ""),
    "convert/hf_to_megatron": ("torchrun", 8, BRIDGE),
    "convert/megatron_to_hf": ("torchrun", 8, BRIDGE),
    "convert/merge_lora": ("direct", 8, NANO),
    "curate/nemo_curator": ("direct", 0, ""),
    "data_prep/pretrain_prep": ("direct", 0, RAY),
    "data_prep/rl_prep": ("direct", 0, RAY),
    "data_prep/sft_packing": ("direct", 0, RAY),
    "env/env_toml": ("direct", 0, ""),
    "eval/model_eval": ("direct", 0, ""),
    "optimize/modelopt/distill": ("direct", 8, BRIDGE),
    "optimize/modelopt/prune": ("direct", 8, BRIDGE),
    "optimize/modelopt/quantize": ("torchrun", 8, BRIDGE),
    "peft/automodel": ("torchrun", 2, ""),
    "peft/megatron_bridge": ("torchrun", 8, NANO),
    "pretrain/automodel": ("torchrun", 8, ""),
    "pretrain/megatron_bridge": ("torchrun", 8, NANO),
    "rl/nemo_rl/dpo": ("ray", 8, RL),
    "rl/nemo_rl/rlhf": ("ray", 8, RL),
    "rl/nemo_rl/rlvr": ("ray", 8, RL),
    "sdg/data_designer": ("direct", 0, ""),
    "sft/automodel": ("torchrun", 4, ""),
    "sft/megatron_bridge": ("torchrun", 8, NANO),
    "translate/nemo_curator": ("direct", 0, ""),
}
"""Nemotron's: launch (its `python` is our `direct`), GPUs of its one node, image (of nvcr.io/nvidia, or whole)."""

TYPES = {
    "byob/mcq": ("benchmark_source_corpus, benchmark_parquet?", MCQ),
    "convert/hf_to_megatron": ("checkpoint_hf", "checkpoint_megatron"),
    "convert/megatron_to_hf": ("checkpoint_megatron", "checkpoint_hf"),
    "convert/merge_lora": (
        "checkpoint_lora, checkpoint_hf, checkpoint_megatron?",
        "checkpoint_hf, checkpoint_megatron?",
    ),
    "curate/nemo_curator": ("raw_jsonl", "filtered_jsonl"),
    "data_prep/pretrain_prep": ("filtered_jsonl", "binidx"),
    "data_prep/rl_prep": ("training_jsonl", "training_jsonl"),
    "data_prep/sft_packing": ("training_jsonl", "packed_parquet"),
    "env/env_toml": ("", "env_toml"),
    "eval/model_eval": ("checkpoint_megatron?", "eval_results"),
    "optimize/modelopt/distill": ("checkpoint_hf, binidx?", "checkpoint_megatron"),
    "optimize/modelopt/prune": ("checkpoint_hf", "checkpoint_hf"),
    "optimize/modelopt/quantize": ("checkpoint_hf", "checkpoint_megatron"),
    "peft/automodel": ("training_jsonl", "checkpoint_lora"),
    "peft/megatron_bridge": ("packed_parquet, checkpoint_megatron", "checkpoint_lora"),
    "pretrain/automodel": ("binidx", "checkpoint_hf"),
    "pretrain/megatron_bridge": ("binidx, checkpoint_megatron?", "checkpoint_megatron"),
    "rl/nemo_rl/dpo": ("training_jsonl, checkpoint_megatron", "checkpoint_megatron"),
    "rl/nemo_rl/rlhf": ("training_jsonl, checkpoint_megatron, checkpoint_hf", "checkpoint_megatron"),
    "rl/nemo_rl/rlvr": ("training_jsonl, checkpoint_megatron", "checkpoint_megatron"),
    "sdg/data_designer": ("training_jsonl?", "synthetic_jsonl"),
    "sft/automodel": ("training_jsonl", "checkpoint_hf"),
    "sft/megatron_bridge": ("packed_parquet, checkpoint_megatron?", "checkpoint_megatron"),
    "translate/nemo_curator": ("filtered_jsonl", "translated_jsonl"),
}
"""Nemotron's: what a step consumes and produces; `?` is optional."""

CONFIGS = {
    "byob/mcq": {"translate"},
    "env/env_toml": {"lepton", "slurm", "dgxcloud"},
    "eval/model_eval": {"tiny_chat"},
    "sdg/data_designer": {"customer_support_tools", "rl_pref"},
}
"""Nemotron's configurations besides `default` and `tiny`."""

ROW = re.compile(r"^\| (`[^|]+) \| (launch|GPUs|image|consumes|produces) \| ([^|]*) \| ([^|]*) \| [^|]{10,} \|$", re.M)


def ours(spec: Runspec) -> dict[str, str]:
    assert spec.nodes == 1
    return {
        "launch": spec.launch,
        "GPUs": str(spec.gpus_per_node),
        "image": (spec.image or "").removeprefix("nvcr.io/nvidia/"),
        "consumes": types(spec.consumes),
        "produces": types(spec.produces),
    }


def types(artifacts: tuple[ArtifactSpec, ...]) -> str:
    return ", ".join(f"{each.type}{'' if each.required else '?'}" for each in artifacts)


def told() -> dict[tuple[str, str], tuple[str, str]]:
    """The rows of the page's table: step and what differs → there, here."""
    text = (REPOSITORY / "docs" / "steps.md").read_text(encoding="utf-8")
    rows = {}
    for steps, what, there, here in ROW.findall(text.partition("## Where steps differ from Nemotron's")[2]):
        for step in re.findall(r"`([^`]+)`", steps):
            rows[step, what] = (there.replace("`", "").strip("– "), here.replace("`", "").strip("– "))
    return rows


def test_what_differs_is_what_the_page_says():
    found = {}
    for recipe in all_steps():
        step, here = step_id(recipe), ours(recipe.spec)
        launch, gpus, image = SHAPES[step]
        consumes, produces = TYPES[step]
        there = {"launch": launch, "GPUs": str(gpus), "image": image, "consumes": consumes, "produces": produces}
        found |= {(step, what): (there[what], here[what]) for what in there if there[what] != here[what]}
    assert found == told()


def test_there_are_these_steps_and_no_others():
    assert [step_id(recipe) for recipe in all_steps()] == sorted(SHAPES) == sorted(TYPES)


@pytest.mark.parametrize("recipe", all_steps(), ids=step_id)
def test_every_configuration_is_there(recipe):
    usual = set() if step_id(recipe) == "env/env_toml" else {"default", "tiny"}
    assert set(recipe.configs()) >= usual | CONFIGS.get(step_id(recipe), set())
