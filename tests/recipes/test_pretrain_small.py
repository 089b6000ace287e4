"""`small` of nano3 pretraining on processors, with two layers: sharded by FSDP2 it trains as one process does, goes on
from a checkpoint, and tells rate and utilisation.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from nano3.settings import SettingsError, build
from nano3.tiny.settings import TinySettings

from .conftest import TRAIN, recipe_config

STEPS = 12
CLOSE = 1e-4
SMALLER = {
    "hybrid_override_pattern": "M*",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "head_dim": 16,
    "mamba_num_heads": 8,
    "mamba_head_dim": 16,
    "n_groups": 2,
    "ssm_state_size": 16,
    "chunk_size": 32,
    "n_routed_experts": 8,
    "moe_intermediate_size": 64,
    "moe_shared_expert_intermediate_size": 128,
}


def small_config(output: Path, data: Path, **train: Any) -> dict[str, Any]:
    """`small.yaml` with two layers and few steps, and a peak of its own, as a processor has none by its name."""
    config = recipe_config(TRAIN, "small", output_dir=output, data__path=data)
    config["model"] |= SMALLER
    config["dataset"]["seq_length"] = 64
    config["train"] |= {"train_iters": STEPS, "global_batch_size": 8, "accumulate": 1, "threads": 1, "eval_iters": 3}
    config["train"] |= {"precision": "fp32", "require_below_unigram": False, **train}
    config["optimizer"]["lr"], config["scheduler"]["lr_warmup_iters"] = 0.01, 4
    config["logger"] |= {"log_interval": 1, "peak_tflops": 0.5}
    return config


def records(folder: Path, key: str) -> dict[int, float]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return {record["step"]: record[key] for record in map(json.loads, lines) if key in record}


@pytest.fixture(scope="module", params=["M*", "*E"], ids=["mamba-attention", "attention-experts"])
def runs(request, run_recipe, tiny_data, tmp_path_factory):
    """Of each two layers: one process to the end; two to the half, and two from there on, each share in two parts; and
    what they said.
    """
    base = tmp_path_factory.mktemp("small")

    def run(name: str, processes: int | None, changes: dict[str, Any], load: Path | None = None) -> str:
        config = small_config(base / name, tiny_data, **changes)
        config["model"]["hybrid_override_pattern"] = request.param
        config["model"]["n_routed_experts"] = 2  # all of them: rounding sends no token to another one
        if load:
            config["checkpoint"]["load"] = str(load)
        done = run_recipe(TRAIN, config, processes=processes)
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    said = {"one": run("one", None, {}), "half": run("half", 2, {"exit_interval": STEPS // 2})}
    said["rest"] = run("rest", 2, {"accumulate": 2}, base / "half" / "checkpoints")
    said["bf16"] = run("bf16", 2, {"precision": "bf16"})
    return base, said


def test_two_processes_that_resume_do_as_one(runs):
    base, said = runs
    one, two = records(base / "one", "loss"), records(base / "half", "loss") | records(base / "rest", "loss")
    assert set(one) == set(two) == set(range(1, STEPS + 1))
    assert max(abs(one[step] - two[step]) for step in one) <= CLOSE
    found = [records(base / name, "val_loss")[STEPS] for name in ("one", "rest")]
    assert abs(found[0] - found[1]) <= CLOSE
    assert f"resumed after step {STEPS // 2} from" in said["rest"]
    assert (base / "half" / "checkpoints" / f"step_{STEPS // 2:08d}" / "complete.json").is_file()


@pytest.mark.parametrize("name", ["one", "bf16"])
def test_it_learns(runs, name):
    losses = records(runs[0] / name, "loss")
    assert all(map(math.isfinite, losses.values()))
    assert losses[STEPS] < losses[1] - 0.5


def test_it_computes_in_bf16_where_it_is_told_to_and_keeps_fp32(runs, run_code):
    base = runs[0]
    one, other = records(base / "one", "loss"), records(base / "bf16", "loss")
    assert 1e-6 < abs(one[2] - other[2]) < 0.1
    code = (
        "import sys; from safetensors.torch import load_file\n"
        "print({str(value.dtype) for value in load_file(sys.argv[1]).values()})\n"
    )
    assert run_code(code, base / "bf16" / "hf" / "model.safetensors") == "{'torch.float32'}"


def test_rate_and_utilisation_are_told(runs):
    base, said = runs
    first, second = said["half"].splitlines()[:2]
    assert "2 process(es) on cpu" in first
    assert second.endswith("MFU of 2 x 0.5 TFLOPs/s (a processor, dense bf16)")
    per_token = float(second.split(" GFLOPs per token")[0])
    rates, shares = records(base / "half", "tokens_per_second"), records(base / "half", "mfu")
    assert set(rates) == set(shares) == set(range(1, STEPS // 2 + 1))
    for step, rate in rates.items():
        assert shares[step] == pytest.approx(per_token * 1e9 * rate / 1e12, rel=1e-2)
    assert any(line.startswith("step 3/12  loss ") and line.endswith("% MFU") for line in said["half"].splitlines())


WHOLE_AND_BACK = """
import json, sys
import torch
from transformers import NemotronHConfig, NemotronHForCausalLM
from nano3.tiny import sharding
from nano3.tiny.ranks import Ranks
from nano3.tiny.settings import Train

model = NemotronHForCausalLM(NemotronHConfig(vocab_size=100, **json.loads(sys.argv[1])))
trained = sharding.spread(model, Train(train_iters=1, global_batch_size=1, fully_shard=True), Ranks(0, 1))
ask = lambda: trained(input_ids=torch.zeros(1, 8, dtype=torch.long), use_cache=False).logits.sum().backward()
parts = [part for part in model.modules() if isinstance(part, sharding.FSDPModule)]

def state():
    groups = [part._get_fsdp_state()._fsdp_param_group for part in parts]
    return [[group._reshard_after_forward, group.is_sharded] for group in groups]

ask()
found = [state()]
with sharding.gathered(model):
    found.append(state())
ask()
found.append(state())
kept, parts[1].unshard = parts[1].unshard, lambda: 1 / 0
try:
    with sharding.gathered(model):
        pass
except ZeroDivisionError:
    found.append(state())
print(json.dumps(found))
"""


def test_what_was_gathered_is_as_before_and_also_where_gathering_fails(run_code):
    config = small_config(Path("/o"), Path("/d"))["model"]
    first, meanwhile, again, failed = json.loads(run_code(WHOLE_AND_BACK, json.dumps(config)).splitlines()[-1])
    assert first[0] == [False, True] and all(part == [True, True] for part in first[1:]), "the root comes first"
    assert not any(is_sharded for _, is_sharded in meanwhile)
    assert again == failed == first


COUNTED = """
import json, os, sys
import torch
from transformers import NemotronHConfig, NemotronHForCausalLM
from nano3.settings import SettingsError
from nano3.tiny.flops import Gauge, flops_per_token
from nano3.tiny.ranks import choose_device
from nano3.tiny.settings import Logger

config, known = json.loads(sys.argv[1]), {}
for pattern in ("ME", "M*", "MM"):
    model = NemotronHForCausalLM(NemotronHConfig(vocab_size=100, **config | {"hybrid_override_pattern": pattern}))
    known[pattern] = flops_per_token(model, 64)
for name in ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "a processor"):
    gauge = Gauge.with_peak(2e9, Logger(mfu=True), name, 4)
    known[name] = [gauge.mfu(989e3), gauge.described]
known["devices"] = [str(choose_device(*asked)) for asked in ((0, 0, 1), (1, 0, 1), (8, 5, 8), (1, 1, 2))]
os.environ["NEMOTRON_GPUS_PER_NODE"] = "2"
known["given"] = [str(choose_device(2, 1, 2)), str(choose_device(1))]
for asked in ((0, 0, 1), (1, 1, 2)):
    try:
        known["given"].append(str(choose_device(*asked)))
    except SettingsError as error:
        known["given"].append(str(error).replace(torch.__version__, "X"))
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
known["given"].append(str(choose_device(0)))
print(json.dumps(known))
"""


def test_flops_are_those_that_a_hand_counts_and_a_peak_is_that_of_the_name(run_code):
    """And a process has a GPU of its own, or none has; a job that was given GPUs does not do without."""
    config = {**small_config(Path("/o"), Path("/d"))["model"], "num_key_value_heads": 2}
    known = json.loads(run_code(COUNTED, json.dumps(config)))
    head = 64 * 100
    convolved = 8 * 16 + 2 * 2 * 16
    mamba = 64 * (8 * 16 + convolved + 8) + 4 * convolved + 8 * 16 * 64
    experts = 8 * 64 + 2 * (2 * 64 * 64) + 2 * 64 * 128  # the router, two experts of eight, the shared one
    attention = 64 * (4 + 2 + 2) * 16 + 4 * 16 * 64
    scan, scores = 15 * 8 * 16 * 16, 12 * 4 * 16 * 64
    assert known["MM"] == 6 * (head + 2 * mamba) + 2 * scan
    assert known["ME"] == 6 * (head + mamba + experts) + scan
    assert known["M*"] == 6 * (head + mamba + attention) + scan + scores
    assert known["NVIDIA H100 80GB HBM3"] == [
        0.5,
        "2 GFLOPs per token; MFU of 4 x 989 TFLOPs/s (NVIDIA H100 80GB HBM3, dense bf16)",
    ]
    for name in ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "a processor"):
        told = f"2 GFLOPs per token; no MFU: the peak of {name} is not known here (logger.peak_tflops)"
        assert known[name] == [None, told]
    assert known["devices"] == ["cpu", "cuda:0", "cuda:5", "cpu"]
    *found, none, too_few, unwanted = known["given"]
    assert found == ["cuda:1", "cuda:0"]
    assert none.startswith("the job was given GPUs (gpus_per_node=2), and torch X sees 0, which is not one for each")
    assert "sees 1, which is not one for each process of this machine (2); CUDA_VISIBLE_DEVICES=-1 in " in too_few
    assert unwanted == "cpu"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"precision": "fp16"}, "train.precision must be one of fp32, bf16, not 'fp16'"),
        ({"precision": "bf16", "fully_shard": False}, "train.precision=bf16 needs train.fully_shard=true"),
        ({"accumulate": 0}, "train.accumulate must be at least 1, not 0"),
    ],
)
def test_what_cannot_be_is_refused(change, words):
    with pytest.raises(SettingsError) as error:
        build(TinySettings, small_config(Path("/o"), Path("/d"), **change))
    assert str(error.value) == words


def test_small_is_planned_on_a_cluster(nemotron):
    told = nemotron(
        "nano3", "pretrain", "-c", "small", "--run", "my-cluster", "run.data.path=/d", "--dry-run", "--json"
    )
    plan = told.succeeds().json["plan"]
    assert plan["config"]["train"]["fully_shard"] is True
    assert (plan["launch"]["kind"], plan["resources"]["gpus_per_node"]) == ("torchrun", 8)


CHOSEN = """
import sys, types
from nano3.tiny.model import KERNELS, described_kernels

print(described_kernels())
for name in KERNELS:
    sys.modules[name] = types.ModuleType(name)
    print(described_kernels())
"""


def test_what_computes_mamba_on_a_gpu_is_told(run_code):
    plain, half, kernels = run_code(CHOSEN).splitlines()[-3:]
    assert plain.startswith("Mamba-2 in plain PyTorch") and plain.endswith(": no mamba_ssm and no causal_conv1d here")
    assert half.endswith(": no causal_conv1d here")
    assert kernels == "Mamba-2 by the kernels of mamba_ssm and causal_conv1d"
