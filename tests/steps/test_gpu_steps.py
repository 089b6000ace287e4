"""What the steps for GPUs do around their library: data in its form, its configuration, the checkpoint as output."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest
import yaml

from .conftest import SHARED

GPU_STEPS = (
    "convert/hf_to_megatron",
    "convert/megatron_to_hf",
    "peft/megatron_bridge",
    "pretrain/megatron_bridge",
    "rl/nemo_rl/dpo",
    "rl/nemo_rl/rlhf",
    "rl/nemo_rl/rlvr",
    "sft/megatron_bridge",
)


@pytest.mark.parametrize("step", GPU_STEPS)
def test_tiny_is_planned_whole(nemotron_process, step):
    plan = nemotron_process("steps", "run", step, "-c", "tiny", "--dry-run").succeeds().out
    assert "wrong or missing" not in plan
    assert "run.env.container_image = nvcr.io/nvidia/" in plan


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("cluster.gpus_per_node=16",), "the config places its models on 16 GPUs per node"),
        (("env.reward_model.resources.gpus_per_node=2",), "the reward model takes 1 x 2 GPUs"),
        (("policy.megatron_cfg.tensor_model_parallel_size=2",), "a copy of the model takes 2 GPUs"),
    ],
)
def test_a_placement_that_does_not_add_up_is_told(nemotron_process, overrides, words):
    plan = nemotron_process("steps", "run", "rl/nemo_rl/rlhf", "-c", "tiny", "--dry-run", *overrides)
    assert words in " ".join((plan.out + plan.err).split())


def test_an_address_of_the_hub_reaches_the_config(nemotron_process):
    words = ("steps", "run", "convert/hf_to_megatron", "-c", "tiny", "run.base.path=hf://some/model", "--dry-run")
    plan = nemotron_process(*words, "--json").succeeds().out
    assert '"hf://some/model"' in plan
    assert "/hf:" not in plan


def test_sft_without_a_checkpoint_is_refused(nemotron_process):
    words = ("steps", "run", "sft/megatron_bridge", "run.data.path=/tmp", "run.env.gpus_per_node=8", "--dry-run")
    refused = nemotron_process(*words)
    assert "base" in refused.err


@pytest.mark.parametrize(
    ("given", "visible", "told"),
    [("8", "", r"gpus_per_node=8\), and torch 2\.13 sees none"), ("8", "-1", ""), ("0", "", "")],
)
def test_a_job_that_was_given_gpus_does_not_train_on_processors(monkeypatch, given, visible, told):
    from nemo_steps import cpu
    from nemo_steps.config import ConfigError

    torch = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False), __version__="2.13")
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setenv("NEMOTRON_GPUS_PER_NODE", given)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(ConfigError, match=told) if told else pytest.raises(ImportError, match="nemo_automodel"):
        cpu.use_cpu_where_no_gpu_is()


def container():
    """The part of Megatron-Bridge's configuration that the glue sets."""
    return SimpleNamespace(
        model=SimpleNamespace(seq_length=4096, recompute=None),
        dataset=SimpleNamespace(blend=1, split="1", blend_per_split=None, kwargs={"a": 1}),
    )


def test_values_go_into_sections_and_unknown_keys_are_refused():
    from nemo_steps import bridge
    from nemo_steps.config import ConfigError

    made = container()
    bridge.override(made, "model", {"seq_length": 64}, "model")
    bridge.override(made, "dataset", {"kwargs": {"b": 2}}, "dataset")
    assert (made.model.seq_length, made.dataset.kwargs) == (64, {"b": 2})
    with pytest.raises(ConfigError, match=r"unknown key 'model.seq_lenght'; did you mean 'seq_length'"):
        bridge.override(made, "model", {"seq_lenght": 64}, "model")
    with pytest.raises(ConfigError, match=r"'model.recompute' is not set by the recipe"):
        bridge.override(made, "model", {"recompute": {"a": 1}}, "model")


def test_a_base_without_a_checkpoint_is_refused_and_not_left_out(tmp_path, monkeypatch):
    """Megatron-Bridge would train random weights; one of Hugging Face's is taken by a version that says so."""
    from nemo_steps import bridge
    from nemo_steps.config import ConfigError

    checkpoints = SimpleNamespace(checkpoint_exists=lambda folder: (tmp_path / folder).is_dir())
    recipe = SimpleNamespace(config=lambda: SimpleNamespace(checkpoint=SimpleNamespace(load="own")))
    modules = {bridge.CHECKPOINTS: checkpoints, "recipe": recipe}
    monkeypatch.setattr(bridge.importlib, "import_module", modules.__getitem__)
    config = {"recipe": {"_target_": "recipe.config"}, "base": "base", "output_dir": "out"}
    with pytest.raises(ConfigError, match=r"base base holds no checkpoint of Megatron's.*random weights"):
        bridge.container_of(config)
    for folder in ("base", "own"):
        (tmp_path / folder).mkdir()
        assert bridge.container_of(config).checkpoint.pretrained_checkpoint == "base"
        (tmp_path / folder).rmdir()
    checkpoints.is_hf_checkpoint_dir = lambda folder: folder == "base"
    assert bridge.container_of(config).checkpoint.pretrained_checkpoint == "base"
    assert not hasattr(bridge.container_of({**config, "base": None}).checkpoint, "pretrained_checkpoint")


def test_tokens_are_given_as_a_blend_per_split(tmp_path):
    from nemo_steps import bridge_data

    for name in ("text_train.idx", "text_valid.idx"):
        (tmp_path / name).touch()
    made = container()
    bridge_data.use_tokens(made, str(tmp_path))
    train, valid = str(tmp_path / "text_train"), str(tmp_path / "text_valid")
    assert made.dataset.blend_per_split == [([train], [1.0]), ([valid], [1.0]), None]
    assert made.dataset.blend is made.dataset.split is None
    bridge_data.use_tokens(made, train)
    assert made.dataset.blend_per_split == [([train], [1.0]), None, None]


PACK = """
import sys
from pathlib import Path
import numpy as np
from nemo_steps import bridge_data, packing

folder = Path(sys.argv[1])
sequences = [packing.Sequence([1, 2, 3], [0, 1, 1]), packing.Sequence([4, 5], [0, 1])]
with packing.Writers(folder, 8) as writers:
    writers.write("train", [sequences])
assert bridge_data.length_of(folder / "train.parquet") == 8
bridge_data.write_numpy(folder, folder / "out", 8, ["train"])
(row,) = np.load(folder / "out" / "training_8.npy", allow_pickle=True)
assert (str(row["input_ids"].dtype), str(row["loss_mask"].dtype)) == ("int32", "int8"), "lists take eight times as much"
print({name: list(map(int, values)) for name, values in row.items()} | {"seq_start_id": row["seq_start_id"]})
"""


@pytest.mark.slow
def test_packed_rows_become_the_numpy_file_that_megatron_bridge_reads(tmp_path):
    words = (
        "uv",
        "run",
        "--no-project",
        "--with",
        "numpy",
        "--with",
        "pyarrow",
        "--with",
        "pyyaml",
        "python",
        "-c",
        PACK,
    )
    paths = {**os.environ, "PYTHONPATH": str(SHARED)}
    ran = subprocess.run([*words, str(tmp_path)], env=paths, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    row = {"input_ids": [1, 2, 3, 4, 5], "loss_mask": [1, 1, 0, 1, 0], "seq_start_id": [0, 3]}
    assert ast.literal_eval(ran.stdout) == row


@pytest.fixture
def nemo_rl_source(tmp_path, monkeypatch):
    """A folder in NeMo-RL's place, and a `uv` that does as its converter and its programs do."""
    source, tools = tmp_path / "nemo-rl", tmp_path / "bin"
    tools.mkdir()
    (source / "examples").mkdir(parents=True)
    (source / "examples" / "run_dpo.py").touch()
    (tools / "uv").write_text(
        f"""#!{sys.executable}
import json, pathlib, sys
words = sys.argv[1:]
with open({str(tmp_path / "calls")!r}, "a") as calls:
    calls.write(json.dumps(words) + chr(10))
if "--hf-ckpt-path" in words:
    place = pathlib.Path(words[words.index("--hf-ckpt-path") + 1])
    place.mkdir()
    (place / "config.json").write_text("{{}}")
else:
    for step in (2, 10):
        weights = pathlib.Path({str(tmp_path / "out/checkpoints")!r}, f"step_{{step}}", "policy/weights/iter_0000000")
        weights.mkdir(parents=True)
        (weights / "common.pt").write_text(str(step))
"""
    )
    (tools / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    return source


def rl_config(tmp_path, source):
    rows, base = tmp_path / "rows.jsonl", tmp_path / "base"
    rows.write_text("{}\n")
    for step in ("iter_0000009", "iter_0000010"):
        (base / step).mkdir(parents=True)
    return {
        "output_dir": str(tmp_path / "out"),
        "base": str(base),
        "source": str(source),
        "recipe": "examples/configs/dpo.yaml",
        "data": {"train": {"data_path": str(rows)}, "validation": {"data_path": str(rows)}},
        "policy": {"model_name": "some/model"},
        "checkpointing": {"checkpoint_dir": str(tmp_path / "out/checkpoints")},
    }


def test_nemo_rl_gets_its_configuration_and_gives_its_last_checkpoint(tmp_path, nemo_rl_source):
    from nemo_steps import nemo_rl

    nemo_rl.train(rl_config(tmp_path, nemo_rl_source), "examples/run_dpo.py")
    convert, train = map(json.loads, (tmp_path / "calls").read_text().splitlines())
    assert convert[:5] == ["run", "--extra", "mcore", nemo_rl.TO_HF, "--config"]
    assert convert[convert.index("--megatron-ckpt-path") + 1] == str(tmp_path / "base/iter_0000010")
    assert convert[convert.index("--hf-model-name") + 1] == "some/model"
    assert train[:3] == ["run", "examples/run_dpo.py", "--config"]
    written = yaml.safe_load((tmp_path / "out/nemo_rl.yaml").read_text())
    assert written["defaults"] == str(nemo_rl_source / "examples/configs/dpo.yaml")
    assert written["policy"]["model_name"] == str(tmp_path / "out/base_hf")
    assert not nemo_rl.OURS & written.keys()
    assert (tmp_path / "out/iter_0000000/common.pt").read_text() == "10"
    iteration, place = tmp_path / "base/iter_0000010", tmp_path / "out/base_hf"
    assert nemo_rl.is_export_of(iteration, place)
    assert not nemo_rl.is_export_of(tmp_path / "base/iter_0000009", place)
    (place / nemo_rl.EXPORTED).unlink()
    assert not nemo_rl.is_export_of(iteration, place), "half of one, as far as anybody knows"
    nemo_rl.to_hf(nemo_rl_source, {"policy": {"model_name": "some/model"}}, iteration, place)
    assert nemo_rl.is_export_of(iteration, place)
    assert len((tmp_path / "calls").read_text().splitlines()) == 3


def test_outside_its_image_nemo_rl_is_asked_for(tmp_path, nemo_rl_source):
    from nemo_steps import nemo_rl
    from nemo_steps.config import ConfigError

    with pytest.raises(ConfigError, match="the job's image is to be"):
        nemo_rl.train(rl_config(tmp_path, nemo_rl_source), "examples/run_grpo.py")


def adapter(folder, peft):
    """An adapter's checkpoint as Megatron-Bridge writes it, as far as its files are text."""
    for number in (9, 10):
        iteration = folder / f"iter_{number:07}"
        iteration.mkdir(parents=True)
        (iteration / "run_config.yaml").write_text(yaml.safe_dump({"peft": peft}))
    return folder


def test_an_adapter_of_megatrons_is_made_as_its_checkpoint_says(tmp_path):
    from nemo_steps import bridge_lora, models
    from nemo_steps.config import ConfigError

    said = {"_target_": "megatron.bridge.peft.lora.LoRA", "dim": 8, "alpha": 16, "target_modules": ["linear_qkv"]}
    made = adapter(tmp_path / "lora", {**said, "lora_dtype": None, "params_to_save": []})
    newest = models.newest(made)
    assert newest == made / "iter_0000010"
    assert models.newest(newest) == newest
    assert models.newest(tmp_path) is None
    assert bridge_lora.settings(newest) == {key: said[key] for key in ("dim", "alpha", "target_modules")}
    other = adapter(tmp_path / "dora", {"_target_": "megatron.bridge.peft.dora.DoRA", "dim": 8})
    with pytest.raises(ConfigError, match="is of DoRA: adapters of LoRA alone can be merged"):
        bridge_lora.settings(other / "iter_0000010")
    (newest / "run_config.yaml").unlink()
    with pytest.raises(ConfigError, match="holds no run_config"):
        bridge_lora.settings(newest)


def test_the_rate_of_a_training_leaves_out_what_is_between_two_steps(monkeypatch):
    """As a checkpoint is."""
    from nemo_steps import bridge

    for name in ("megatron", "megatron.bridge", "megatron.bridge.training"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    callbacks = ModuleType("megatron.bridge.training.callbacks")
    vars(callbacks).update(Callback=object, CallbackContext=object)
    monkeypatch.setitem(sys.modules, callbacks.__name__, callbacks)
    clock, told = SimpleNamespace(now=5.0), []
    monkeypatch.setattr(bridge, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(bridge, "_knows_the_loss", lambda settings: True)
    monkeypatch.setattr(bridge, "_loss", lambda losses: 1.0)
    monkeypatch.setattr(bridge.metrics, "append", lambda **row: told.append(row))
    settings = SimpleNamespace(
        logger=SimpleNamespace(log_interval=2),
        train=SimpleNamespace(global_batch_size=64, train_iters=4),
        model=SimpleNamespace(seq_length=4),
    )
    tell = bridge._tell()
    for step in range(4):
        state = SimpleNamespace(train_state=SimpleNamespace(step=step), cfg=settings)
        clock.now += 70
        tell.on_train_step_start(SimpleNamespace(state=state))
        clock.now += 10
        tell.on_train_step_end(SimpleNamespace(state=state, loss_dict={}))
    assert [row.get("tokens_per_second") for row in told] == [None, 25.6]
