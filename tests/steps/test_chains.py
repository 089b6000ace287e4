"""Steps with large libraries, run for real on the processor, each on what the one before has made."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from .conftest import EXAMPLES, STEPS, Made, metrics_of

from nemo_steps import automodel  # isort: skip

pytestmark = pytest.mark.full

TINY_MODEL = EXAMPLES / "tiny_model"


def score(run_step: Any, model: Path) -> float:
    """The share of the 24 questions that a checkpoint answers exactly."""
    made: Made = run_step("eval/model_eval", "tiny", f"run.model.path={model}", type="eval_results")
    found = json.loads((made.folder / "results.json").read_text())
    return float(found["results"]["tiny_questions"]["exact_match,none"])


def test_documents_are_tokenized_pretrained_on_and_the_model_quantized(project, run_step):
    run_step("data_prep/pretrain_prep", "tiny", type="binidx")
    model = run_step("pretrain/automodel", "tiny", "run.data=pretrain-prep-tokens-tiny", type="checkpoint_hf").folder
    losses = [record["loss"] for record in metrics_of(project) if "loss" in record]
    assert len(losses) == 20
    assert losses[-1] < losses[0] - 1
    assert json.loads((model / "config.json").read_text())["vocab_size"] == 512
    quantized = run_step(
        "optimize/modelopt/quantize", "tiny", "run.base=pretrain-automodel-model-tiny", type="checkpoint_hf"
    )
    settings = json.loads((quantized.folder / "hf_quant_config.json").read_text())
    assert settings["quantization"]["quant_algo"] == "FP8"


@pytest.mark.parametrize("chosen", ["nvfp4", "int8", "int8_smoothquant"])
def test_each_format_is_written(run_step, chosen):
    made = run_step("optimize/modelopt/quantize", "tiny", f"format={chosen}", type="checkpoint_hf").folder
    assert (made / "hf_quant_config.json").is_file()


def test_an_adapter_is_trained_merged_and_the_model_measured(project, run_step):
    adapter = run_step("peft/automodel", "tiny", type="checkpoint_lora").folder
    assert json.loads((adapter / "adapter_config.json").read_text())["r"] == 4
    merged = run_step("convert/merge_lora", "tiny", f"run.adapter.path={adapter}", type="checkpoint_hf").folder
    assert json.loads((merged / "merged.json").read_text())["layers"] == 14
    assert (merged / "model.safetensors").read_bytes() != (TINY_MODEL / "model.safetensors").read_bytes()
    assert score(run_step, merged) > 0.5


def test_conversations_are_packed_and_trained_on(project, run_step):
    run_step("data_prep/sft_packing", "tiny", type="packed_parquet")
    model = run_step("sft/automodel", "tiny", type="checkpoint_hf").folder
    assert len([record for record in metrics_of(project) if "loss" in record]) == 20
    assert score(run_step, model) > 0.5


READ = """\
import sys, yaml
from nemo_automodel.components.config.loader import ConfigNode
from nemo_automodel.recipes._typed_config import RecipeConfig
for step, sections in yaml.safe_load(sys.stdin).items():
    config = RecipeConfig(ConfigNode(sections))
    for section in ("loss_fn", "optimizer", "step_scheduler", "lr_scheduler", "checkpoint", "dataloader"):
        assert getattr(config, section) is not None, (step, section)
"""


def has_automodel(python: Path) -> bool:
    return next(python.parents[1].glob("lib/*/site-packages/nemo_automodel"), None) is not None


def test_automodel_reads_the_configurations_for_production(project, run_step):
    """What is run here is the tiny ones; the others' sections are made into AutoModel's own settings."""
    run_step("peft/automodel", "tiny", type="checkpoint_lora")
    python = next(place for place in project.state.glob("envs/*/bin/python") if has_automodel(place))
    all_sections = {}
    for step, data in (("sft", "path_or_dataset_id"), ("peft", "path_or_dataset_id"), ("pretrain", "paths")):
        text = (STEPS / step / "automodel" / "config" / "default.yaml").read_text(encoding="utf-8")
        config = yaml.safe_load(re.sub(r"\$\{[^}]*\}|\?\?\?", "/somewhere", text))
        config["dataset"][data] = "/somewhere/rows.jsonl"
        config["model"].setdefault("pretrained_model_name_or_path", str(TINY_MODEL))
        all_sections[step] = {key: value for key, value in config.items() if key not in {"run", *automodel.OURS}}
    words = [python, "-c", READ]
    read = subprocess.run(words, input=yaml.safe_dump(all_sections), capture_output=True, text=True, check=False)
    assert read.returncode == 0, read.stderr[-2000:]


def test_a_pruned_model_learns_again_from_the_one_that_it_came_from(run_step):
    pruned = run_step("optimize/modelopt/prune", "tiny", "keep.layers=1", type="checkpoint_hf").folder
    told = json.loads((pruned / "pruned.json").read_text())
    assert told["parameters"][1] < told["parameters"][0]
    assert (told["intermediate_size"], len(told["layers"])) == (32, 1)
    wanted = (f"run.student.path={pruned}", "train.max_steps=150")
    student = run_step("optimize/modelopt/distill", "tiny", *wanted, type="checkpoint_hf").folder
    assert json.loads((student / "config.json").read_text())["intermediate_size"] == 32
    assert score(run_step, student) > score(run_step, pruned)


def test_a_student_is_made_of_the_teachers_layers(project, run_step):
    student = run_step("optimize/modelopt/distill", "tiny", type="checkpoint_hf").folder
    assert json.loads((student / "config.json").read_text())["num_hidden_layers"] == 1
    losses = [record["loss"] for record in metrics_of(project) if "loss" in record]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("config", "overrides"),
    [
        ("default", ["launcher.target.api_endpoint.api_key_name=TINY_KEY"]),
        ("deployed", [f"run.model.path={TINY_MODEL}"]),
    ],
)
def test_the_launcher_writes_what_it_would_run_and_that_is_no_result(nemotron_process, project, config, overrides):
    words = ("steps", "run", "eval/model_eval", "-c", config, "dry_run=true", *overrides)
    outcome = nemotron_process(*words, timeout=900, TINY_KEY="none")
    assert outcome.code == 65, outcome.out + outcome.err
    assert "no result: " in outcome.out + outcome.err
    scripts = list(project.state.glob("run/artifacts/model-eval-results/*/launcher/**/run.sh"))
    assert {script.parent.name.rpartition(".")[0] for script in scripts} == {
        f"lm-evaluation-harness.{task}" for task in ("ifeval", "mmlu_instruct", "gsm8k_cot_instruct")
    }
    served = [str(TINY_MODEL) in script.read_text() for script in scripts]
    assert all(served) if config == "deployed" else not any(served)


def test_a_checkpoint_that_nothing_serves_is_a_mistake(nemotron_process):
    outcome = nemotron_process("steps", "run", "eval/model_eval", f"run.model.path={TINY_MODEL}", timeout=900)
    assert outcome.code != 0
    assert "launcher.deployment.type is none" in outcome.out + outcome.err


def test_what_is_wrong_with_a_row_is_diagnosed(nemotron_process, project):
    data = project.write("rows.jsonl", '{"text": "no conversation"}\n' * 16)
    assert (
        nemotron_process("steps", "run", "sft/automodel", "-c", "tiny", f"run.data.path={data}", timeout=900).code != 0
    )
    told = nemotron_process("jobs", "diagnose", "last").out
    assert "A row has no conversation." in told
    assert "data_prep/rl_prep with form=chat" in " ".join(told.split())
