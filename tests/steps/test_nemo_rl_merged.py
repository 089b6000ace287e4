"""What NeMo-RL makes of the `default` configurations: its own file, as it was read, with ours laid over it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import published

CONFIGS = published.nemo_rl_configs()
OWN = {"ResponseDataset": {"input_key", "output_key", "processor", "env_name"}, "PreferenceDataset": set()}
"""Class of NeMo-RL's for rows of one's own → what it is told of them, beside where they lie."""


def read(file: str) -> dict[str, Any]:
    found: dict[str, Any] = published.committed()["nemo_rl"]["read"][file]
    return found


def test_all_of_them_are_looked_at():
    steps = {f"steps/rl/nemo_rl/{name}" for name in ("dpo", "rlhf", "rlvr")}
    assert CONFIGS.keys() == {*steps, "nano3/rl", "super3/rl"}


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_it_trains_on_the_rows_that_are_named(name):
    sets = published.nemo_rl_data(CONFIGS[name])
    for split, file in {"train": "train", "validation": "valid"}.items():
        data = sets[split]
        assert data["data_path"] == f"${{run.data.path}}/{file}.jsonl"
        assert data.keys() >= OWN[data["dataset_name"]]
        assert data.get("split") in (None, "train"), "rows of a file are one split, which is called so"
        assert not data.get("split_validation_size"), "validation has rows of its own"


def test_a_path_alone_does_not_replace_a_data_set():
    config = CONFIGS["nano3/rl"]
    path = {"data_path": "/rows.jsonl"}
    data = {**config["data"], "train": path, "validation": path}
    sets = published.nemo_rl_data({**config, "data": data})
    assert [sets[split]["dataset_name"] for split in ("train", "validation")] == [
        "OpenMathInstruct-2",
        "ResponseDataset",
    ]


def test_the_shapes_are_those_that_nvidia_trains_these_models_in():
    for name, file in (
        ("nano3/rl", "examples/nemo_gym/grpo_nanov3.yaml"),
        ("super3/rl", "examples/nemo_gym/nemotron-3-super/stage1_rlvr.yaml"),
    ):
        megatron = CONFIGS[name]["policy"]["megatron_cfg"]
        assert megatron.items() >= read(file)["shape"]["policy.megatron_cfg"].items()
    cluster = read("examples/nemo_gym/grpo_nanov3.yaml")["shape"]["cluster"]
    env = published._yaml(published.STEPS.parent / "nano3/rl" / published.DEFAULT)["run"]["env"]
    assert (env["nodes"], env["gpus_per_node"]) == (cluster["num_nodes"], cluster["gpus_per_node"])


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_sequences_can_be_divided_among_the_gpus(name):
    """Megatron packs them to multiples of the tensor size, and with a context size to twice the product of the two."""
    policy = CONFIGS[name]["policy"]
    tensor, context = (policy["megatron_cfg"][f"{each}_parallel_size"] for each in ("tensor_model", "context"))
    assert policy["make_sequence_length_divisible_by"] % (tensor * context * (2 if context > 1 else 1)) == 0
