"""Tiny reinforcement learning on Ray: the reward rises, a stopped run goes on to the same weights."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from waiting import until

from .conftest import RL, SHARED, recipe_config, recipe_environment

TEACH = """
import sys, torch
from pathlib import Path
from transformers import AutoTokenizer, NemotronHConfig, NemotronHForCausalLM
tokenizer_dir, template, out = map(Path, sys.argv[1:])
torch.set_num_threads(1)
torch.manual_seed(1)
tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
tokenizer.chat_template = template.read_text()
sizes = {
    "hybrid_override_pattern": "M*E", "hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1,
    "head_dim": 16, "mamba_num_heads": 4, "mamba_head_dim": 16, "n_groups": 1, "ssm_state_size": 8, "chunk_size": 16,
    "n_routed_experts": 2, "num_experts_per_tok": 1, "n_shared_experts": 1, "moe_intermediate_size": 16,
    "moe_shared_expert_intermediate_size": 16, "max_position_embeddings": 64,
}
tokens = {"vocab_size": len(tokenizer), "bos_token_id": None, "eos_token_id": tokenizer.eos_token_id}
model = NemotronHForCausalLM(NemotronHConfig(**sizes, **tokens, pad_token_id=None))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for step in range(60):
    loss = 0
    for answer in ("three", "seven"):
        turns = [{"role": "user", "content": f"Is it {step % 4}?"}, {"role": "assistant", "content": answer}]
        ids = torch.tensor([tokenizer.apply_chat_template(turns, return_dict=True)["input_ids"]])
        logits = model(input_ids=ids, use_cache=False).logits
        loss = loss + torch.nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
model.save_pretrained(out)
tokenizer.save_pretrained(out)
"""


@pytest.fixture(scope="module")
def undecided(run_code, tiny_data, tmp_path_factory) -> Path:
    """A model that says `three` as often as `seven`."""
    folder = tmp_path_factory.mktemp("undecided") / "hf"
    run_code(TEACH, tiny_data / "tokenizer", SHARED / "nano3" / "chat_template.jinja", folder)
    return folder


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> Path:
    """Questions of which `seven` is always the answer."""
    folder = tmp_path_factory.mktemp("rows")
    for split in ("train", "valid"):
        lines = [json.dumps({"input": f"Is it {number}?", "output": "seven"}) for number in range(4)]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    files = {path.name: {"bytes": path.stat().st_size} for path in folder.iterdir()}
    (folder / "manifest.json").write_text(json.dumps({"files": files}))
    return folder


def config_of(output: Path, rows: Path, model: Path, **grpo: Any) -> dict[str, Any]:
    config = recipe_config(RL, "tiny", output_dir=output, data__path=rows, base__path=model.parent)
    config["grpo"] |= {"num_prompts_per_step": 4, "max_num_steps": 12, "val_period": 6, **grpo}
    config["checkpointing"]["save_period"] = 4
    config["optimizer"] |= {"lr": 0.005, "warmup_steps": 1}
    return config


def records(folder: Path, key: str) -> dict[int, float]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return {record["step"]: record[key] for record in map(json.loads, lines) if key in record}


def test_some_steps_are_answered_rewarded_and_learnt_from(run_recipe, ray_cluster, undecided, rows, tmp_path):
    done = run_recipe(RL, config_of(tmp_path, rows, undecided, max_num_steps=2, val_period=2), **ray_cluster)
    assert done.returncode == 0, done.stderr
    assert list(records(tmp_path, "val_reward")) == [0, 2]
    assert all(0 < value < 1 for value in records(tmp_path, "reward").values()), "it says both words"
    learnt, before = (folder / "model.safetensors" for folder in (tmp_path / "hf", undecided))
    assert learnt.read_bytes() != before.read_bytes()
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step_00000002"]
    assert (tmp_path / "reward.png").is_file()


def test_a_job_that_was_given_gpus_does_not_draw_and_learn_on_processors(run_recipe, undecided, rows, tmp_path):
    done = run_recipe(RL, config_of(tmp_path, rows, undecided), NEMOTRON_GPUS_PER_NODE="1", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2
    assert "error: the job was given GPUs (gpus_per_node=1), and torch " in done.stderr


@pytest.mark.full
def test_the_reward_rises_and_a_stopped_run_goes_on_to_the_same(
    recipe_python, run_recipe, ray_cluster, undecided, rows, tmp_path
):
    once = tmp_path / "once"
    changes = {"reference_policy_kl_penalty": 0.01, "updates_per_step": 2}
    done = run_recipe(RL, config_of(once, rows, undecided, **changes), **ray_cluster)
    assert done.returncode == 0, done.stderr
    measured = records(once, "val_reward")
    assert list(measured) == [0, 6, 12]
    assert 0.1 < measured[0] < 0.8 and measured[12] - measured[0] >= 0.2, measured
    assert all((once / name).is_file() for name in ("hf/config.json", "hf/tokenizer.json", "reward.png"))
    assert sorted(path.name for path in (once / "checkpoints").iterdir()) == ["step_00000008", "step_00000012"]
    assert any(value > 0 for value in records(once, "kl").values())

    halves = tmp_path / "halves"
    config = config_of(halves, rows, undecided, **changes)
    file = tmp_path / "train.yaml"
    file.write_text(yaml.safe_dump(config))
    with subprocess.Popen(
        [str(recipe_python), str(RL), "--config", str(file)],
        env=recipe_environment(**ray_cluster), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        until(lambda: (halves / "metrics.jsonl").exists() and len(records(halves, "reward")) >= 2)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM, out
    assert "stopped by a signal after step" in out
    again = run_recipe(RL, config, **ray_cluster)
    assert again.returncode == 0, again.stderr
    assert "resumed from" in again.stdout
    assert records(halves, "reward") == records(once, "reward")
    assert (halves / "hf/model.safetensors").read_bytes() == (once / "hf/model.safetensors").read_bytes()


ONCE = """
import torch
from nano3.grpo.actors import distinct
tokens = torch.tensor([[5, 1, 2, 0, 0], [5, 3, 2, 0, 0], [5, 1, 2, 0, 0], [6, 1, 2, 0, 0]])
mask = torch.tensor([[0, 1, 1, 0, 0]] * 4)
gains, old = torch.tensor([1.0, -2.0, 1.0, 3.0]), torch.tensor([[-1.0, 0, 0, 0], [-2.0, 0, 0, 0]] * 2)
old[3, 0] = -4.0
batch = distinct(tokens, mask, old, gains)
found = zip(batch.tokens.tolist(), batch.old[:, 0].tolist(), batch.gains.tolist(), batch.times.tolist())
print(batch.tokens.shape[1], sorted(found))
"""


def test_an_answer_that_was_drawn_twice_counts_twice(run_code):
    kept = [([5, 1, 2], -1.0, 1.0, 2.0), ([5, 3, 2], -2.0, -2.0, 1.0), ([6, 1, 2], -4.0, 3.0, 1.0)]
    assert run_code(ONCE).splitlines()[-1] == f"3 {kept}"


def test_rows_that_no_manifest_tells_of_are_refused(run_recipe, undecided, rows, tmp_path):
    for name in ("train.jsonl", "valid.jsonl"):
        (tmp_path / name).write_bytes((rows / name).read_bytes())
    done = run_recipe(RL, config_of(tmp_path / "out", tmp_path, undecided))
    assert done.returncode == 2 and "holds no whole dataset: it has no manifest.json" in done.stderr, done.stderr


def test_a_model_without_a_chat_template_is_refused(run_recipe, ray_cluster, undecided, rows, tmp_path):
    bare = tmp_path / "hf"
    bare.mkdir()
    for file in undecided.iterdir():
        if file.name != "chat_template.jinja":
            (bare / file.name).write_bytes(file.read_bytes())
    done = run_recipe(RL, config_of(tmp_path / "out", rows, bare), **ray_cluster)
    assert done.returncode == 2, done.stderr
    assert "error: model_dir" in done.stderr and "no chat template" in done.stderr
