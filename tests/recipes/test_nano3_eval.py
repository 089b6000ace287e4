"""Tiny evaluation: exact match and perplexity with their errors, in a chat and without one; the launcher's file."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from nano3.launcher import LauncherSettings, write_config
from nano3.settings import SettingsError, build

from .conftest import EVAL, SHARED, TRAIN, header, recipe_config

RIGHT = [
    {"prompt": "What is one plus one?", "answer": "two"},
    {"prompt": "Which is larger, one or two?", "answer": "two"},
]


@pytest.fixture(scope="module")
def models(run_recipe, tiny_data, tmp_path_factory) -> dict[str, Path]:
    """One model after five steps, as pretraining leaves it and as one that knows a chat."""
    top = tmp_path_factory.mktemp("models")
    config = recipe_config(TRAIN, "tiny", output_dir=top / "plain", data__path=tiny_data)
    config["train"].update(train_iters=5, eval_interval=1000, eval_iters=1, require_below_unigram=False)
    done = run_recipe(TRAIN, config)
    assert done.returncode == 0, done.stderr
    shutil.copytree(top / "plain" / "hf", top / "chat" / "hf")
    shutil.copyfile(SHARED / "nano3" / "chat_template.jinja", top / "chat" / "hf" / "chat_template.jinja")
    return {name: top / name for name in ("plain", "chat")}


def eval_config(output: Path, model: Path, text: Path, **changes: Any) -> dict[str, Any]:
    return recipe_config(EVAL, "tiny", output_dir=output, model__path=model, text__path=text) | changes


def test_what_is_measured_is_written_with_its_error_and_shown_beside_earlier_results(
    run_recipe, models, tiny_data, tmp_path
):
    questions = tmp_path / "questions.jsonl"
    questions.write_text("".join(json.dumps(row) + "\n" for row in RIGHT))
    found = {}
    for name, asked in (("plain", "Question: What is one plus one?\nAnswer:"), ("chat", "<|bos|>user: What is one")):
        output = tmp_path / name
        earlier = {"before": str(tmp_path / "plain")} if name == "chat" else {}
        config = eval_config(output, models[name], tiny_data, questions=str(questions), earlier=earlier)
        done = run_recipe(EVAL, config)
        assert done.returncode == 0, done.stderr
        written = json.loads((output / "results.json").read_text())
        assert written["asked"] == name
        samples = [json.loads(line) for line in (output / "samples_questions.jsonl").read_text().splitlines()]
        assert samples[0]["prompt"].startswith(asked)
        scores = found[name] = written["results"]
        right = [sample["said"] == sample["answer"] for sample in samples]
        assert scores["questions"]["exact_match,none"] == sum(right) / 2
        assert all(math.isfinite(value) for task in scores.values() for value in task.values())
        assert scores["text"]["perplexity,none"] > 1 and scores["text"]["perplexity_stderr,none"] > 0
    assert found["plain"]["text"] == found["chat"]["text"], "the same weights"
    table = done.stdout.splitlines()
    assert table[1].startswith("before") and table[2].startswith("this model")


def test_a_job_that_was_given_a_gpu_does_not_measure_on_a_processor(run_recipe, models, tiny_data, tmp_path):
    config = eval_config(tmp_path / "out", models["plain"], tiny_data)
    done = run_recipe(EVAL, config, NEMOTRON_GPUS_PER_NODE="1", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2
    assert "error: the job was given GPUs (gpus_per_node=1), and torch " in done.stderr


def test_what_is_not_there_is_told(run_recipe, models, tiny_data, tmp_path):
    for changes, words in (
        ({"questions": "/nowhere"}, "questions /nowhere: no JSON lines"),
        ({"questions": "/dev/null"}, "questions /dev/null: the file is empty"),
        ({"earlier": {"sft": "/nowhere"}}, "earlier.sft: /nowhere holds no results.json"),
        ({"model_dir": "/nowhere"}, "/nowhere/hf holds no Hugging Face checkpoint"),
    ):
        done = run_recipe(EVAL, eval_config(tmp_path / "out", models["plain"], tiny_data) | changes)
        assert done.returncode == 2
        assert words in done.stderr
        assert not (tmp_path / "out").exists()


def test_the_launcher_gets_its_groups_and_our_folder(tmp_path):
    config = recipe_config(EVAL, "default", output_dir=tmp_path)
    made = yaml.safe_load(write_config(build(LauncherSettings, config)).read_text())
    assert made["defaults"] == [{"execution": "local"}, {"deployment": "none"}, "_self_"]
    assert made["execution"] == {"output_dir": str(tmp_path / "launcher")}
    assert made["evaluation"]["tasks"][0] == {"name": "lm-evaluation-harness.ifeval"}
    assert "nemo-evaluator-launcher==0.2.6" in header(EVAL)["dependencies"]
    del config["launcher"]["deployment"]
    with pytest.raises(SettingsError, match=r"launcher\.deployment\.type"):
        write_config(build(LauncherSettings, config))
