"""`nano3/rl`: its rewards and groups by hand, its full-size configuration against NeMo-RL's names and a stand-in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from nano3 import nemo_rl
from nano3.grpo.settings import RlSettings
from nano3.grpo.task import Question, advantages, questions_of_step, read_questions, reward
from nano3.settings import SettingsError, build

from .conftest import NANO3, recipe_config

RL = NANO3 / "rl" / "rl.py"
PUBLISHED = Path(__file__).parents[1] / "steps" / "published.json"


def full_size(tmp_path: Path) -> dict[str, Any]:
    """`default.yaml` with a NeMo-RL that only has the files that are named."""
    text = (RL.parent / "config" / "default.yaml").read_text().replace("${plan:nodes}", "2")
    config = yaml.safe_load(
        text.replace("${plan:gpus_per_node}", "8").replace("${run.output_dir}", str(tmp_path / "o"))
    )
    for split in ("train", "valid"):
        (tmp_path / f"{split}.jsonl").write_text('{"input": "1+1?", "output": "2"}\n')
    for split, name in (("train", "train"), ("validation", "valid")):
        config["nemo_rl"]["data"][split]["data_path"] = str(tmp_path / f"{name}.jsonl")
    del config["run"]
    for file in (nemo_rl.PROGRAM, config["recipe"], nemo_rl.TO_HF):
        (tmp_path / "source" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / file).touch()
    return {**config, "source": str(tmp_path / "source"), "base": None}


def names_of(values: Any, above: str = "") -> Iterator[str]:
    """The dotted names of all values."""
    for key, value in values.items():
        name = f"{above}.{key}".lstrip(".")
        yield from names_of(value, name) if isinstance(value, dict) else (name,)


def test_a_reward_is_for_the_exact_answer_alone():
    assert [reward(said, "fourteen") for said in ("fourteen", " Fourteen ", "four", "fourteen four", "")] == [
        1,
        1,
        0,
        0,
        0,
    ]


def test_answers_are_held_to_the_others_of_their_group():
    found = advantages([1, 0, 0, 0, 1, 1, 1, 1], 4, normalize=True)
    assert found[0] == pytest.approx(3**0.5, rel=1e-3) and found[1:4] == [pytest.approx(-(3**-0.5), rel=1e-3)] * 3
    assert found[4:] == [0, 0, 0, 0]
    assert advantages([1, 0, 0, 0, 1, 1, 1, 1], 4, normalize=False) == [0.75, -0.25, -0.25, -0.25, 0, 0, 0, 0]


def test_every_question_comes_once_before_any_comes_again():
    known = [Question(str(number), "x") for number in range(7)]
    asked = [question for step in range(7) for question in questions_of_step(known, step, 3, seed=5)]
    assert [sorted(asked[start : start + 7], key=str) for start in (0, 7, 14)] == [known] * 3
    assert asked[:7] != asked[7:14]
    assert asked == [question for step in range(7) for question in questions_of_step(known, step, 3, seed=5)]
    assert asked != [question for step in range(7) for question in questions_of_step(known, step, 3, seed=6)]


@pytest.mark.parametrize(
    ("rows", "said"), [(None, "No such file"), ("", "is empty"), ('{"prompt": "a"}', "input"), ("[", "")]
)
def test_rows_that_are_none_are_named(tmp_path, rows, said):
    files = {} if rows is None else {"train.jsonl": {"bytes": len(rows)}}
    (tmp_path / "manifest.json").write_text(json.dumps({"files": files}))
    if rows is not None:
        (tmp_path / "train.jsonl").write_text(rows)
    with pytest.raises(SettingsError, match=f"data_dir {tmp_path}.*{said}"):
        read_questions(tmp_path, "train")


@pytest.mark.parametrize(
    ("section", "key", "value", "said"),
    [
        ("grpo", "num_generations_per_prompt", 1, "held to each other"),
        ("grpo", "max_num_steps", 0, "at least 1"),
        ("generation", "temperature", 0.0, "above 0"),
        ("grpo", "ratio_clip", 0.1, "ratio_clip_min"),
    ],
)
def test_settings_that_cannot_be(tmp_path, section, key, value, said):
    config = recipe_config(RL, "tiny", output_dir=tmp_path, data__path=tmp_path, base__path=tmp_path)
    build(RlSettings, config)
    config[section][key] = value
    with pytest.raises(SettingsError, match=said):
        build(RlSettings, config)


def test_every_name_of_the_full_size_is_one_of_nemo_rls(tmp_path):
    config = full_size(tmp_path)
    read = json.loads(PUBLISHED.read_text())["nemo_rl"]["read"]
    known = {name for file in read.values() for name in file["names"]}
    assert set(names_of(config["nemo_rl"])) <= known
    assert {config["recipe"], nemo_rl.PROGRAM, nemo_rl.TO_HF} <= set(read)


def test_nemo_rls_program_gets_our_values_laid_over_its_own(tmp_path):
    config = full_size(tmp_path)
    (tmp_path / "base" / "checkpoints" / "iter_0000010").mkdir(parents=True)
    (tmp_path / "base" / "checkpoints" / "iter_0000002").mkdir()
    config["base"] = str(tmp_path / "base")
    done, ran = started(tmp_path, config)
    assert done.returncode == 7, done.stderr
    converted, trained = ran
    assert converted[:4] == ["run", "--extra", "mcore", nemo_rl.TO_HF]
    assert converted[converted.index("--megatron-ckpt-path") + 1].endswith("checkpoints/iter_0000010")
    assert trained[:3] == ["run", nemo_rl.PROGRAM, "--config"]
    written = yaml.safe_load(Path(trained[3]).read_text())
    assert written["defaults"] == f"{tmp_path}/source/{config['recipe']}"
    assert written["policy"]["model_name"] == f"{tmp_path}/o/base_hf"
    assert written["cluster"] == {"num_nodes": 2, "gpus_per_node": 8}
    assert written["grpo"] == config["nemo_rl"]["grpo"]


def test_an_export_that_is_half_or_of_another_checkpoint_is_made_again(tmp_path):
    base = tmp_path / "base"
    (base / "iter_0000002").mkdir(parents=True)
    config = {**full_size(tmp_path), "base": str(base)}
    (tmp_path / "killed").touch()
    done, ran = started(tmp_path, config)
    assert (done.returncode, len(ran)) == (2, 1)
    assert "NeMo-RL's converter ended with 9" in done.stderr
    (tmp_path / "killed").unlink()
    for steps in (2, 1):  # converted and trained; then trained alone
        done, ran = started(tmp_path, config)
        assert (done.returncode, len(ran)) == (7, steps)
    (base / "iter_0000010").mkdir()
    done, ran = started(tmp_path, config)
    assert len(ran) == 2
    assert ran[0][ran[0].index("--megatron-ckpt-path") + 1].endswith("iter_0000010")
    assert not list((tmp_path / "o").glob(".partial-*"))


def test_what_is_not_there_is_named_before_anything_runs(tmp_path):
    for change, said in (
        ({"source": str(tmp_path / "none")}, "NeMo-RL's container"),
        ({"base": str(tmp_path)}, "holds neither hf/ nor iter_<step>"),
        ({"recipe": "examples/none.yaml"}, "examples/none.yaml"),
    ):
        done, ran = started(tmp_path, {**full_size(tmp_path), **change})
        assert (done.returncode, ran) == (2, []), done.stderr
        assert said in done.stderr and "Traceback" not in done.stderr
    (tmp_path / "manifest.json").write_text('{"files": {"train.jsonl": {"bytes": 9}}}')
    done, ran = started(tmp_path, full_size(tmp_path))
    assert (done.returncode, ran) == (2, []), done.stderr
    assert f"nemo_rl.data.train.data_path {tmp_path} holds no whole dataset: train.jsonl" in done.stderr


def started(tmp_path: Path, config: dict[str, Any]) -> tuple[subprocess.CompletedProcess[str], list[list[str]]]:
    """The recipe's script with a stand-in for uv, which ends with 7 where it is to train; and what that was told."""
    (tmp_path / "bin").mkdir(exist_ok=True)
    told = tmp_path / "told"
    told.write_text("")
    uv = tmp_path / "bin" / "uv"
    # A converter that is killed leaves a checkpoint in which weights are missing.
    uv.write_text(
        f'#!/bin/sh\nprintf "%s\\t" "$@" >> {told}\necho >> {told}\n[ "$2" = --extra ] || exit 7\n'
        f'for place; do :; done; mkdir -p "$place"; echo {{}} > "$place/config.json"\n'
        f"[ ! -e {tmp_path}/killed ] || exit 9\n"
    )
    uv.chmod(0o755)
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(config))
    words = [sys.executable, str(RL), "--config", str(tmp_path / "train.yaml")]
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(words, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    return done, [line.rstrip("\t").split("\t") for line in told.read_text().splitlines()]


def test_the_plan_says_nodes_and_gpus(nemotron, tmp_path):
    words = ("nano3", "rl", "--run", "my-cluster", "run.data.path=/data", "run.base.path=/base", "run.env.nodes=4")
    made = nemotron(*words, "--dry-run", "--json").succeeds().json["plan"]
    assert made["config"]["nemo_rl"]["cluster"] == {"num_nodes": 4, "gpus_per_node": 8}
    assert made["config"]["nemo_rl"]["checkpointing"]["checkpoint_dir"] == f"{made['run']['output_dir']}/checkpoints"
    assert made["launch"]["kind"] == "ray" and made["unfilled"] == []
