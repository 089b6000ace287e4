"""The report of nano3's chain: its table by hand, and its recipe with a figure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nano3.chain import ReportSettings, seconds_of, table, write_report
from nano3.settings import SettingsError, build

from .conftest import NANO3, recipe_config

REPORT = NANO3 / "report" / "report.py"


def results(folder: Path, exact: float, perplexity: float, text: float | None = None) -> Path:
    folder.mkdir(parents=True)
    tasks = {"questions": {"exact_match,none": exact, "perplexity,none": perplexity, "count": 160}}
    if text is not None:
        tasks["text"] = {"perplexity,none": text}
    (folder / "results.json").write_text(json.dumps({"results": tasks}))
    return folder


def test_stages_stand_in_a_line_each_and_what_none_has_is_left_out():
    found = {
        "pretrain": {"exact match": 0.0, "perplexity of answers": 1234.5},
        "sft": {"exact match": 0.25, "perplexity of answers": 2.5, "seconds of training": 61.4},
    }
    assert table(found) == [
        "stage     exact match  perplexity of answers  seconds of training",
        "pretrain        0.000                   1234                    –",
        "sft             0.250                  2.500                   61",
    ]


def test_time_is_from_the_first_record_to_the_last(tmp_path):
    assert seconds_of(tmp_path) is None
    lines = [json.dumps({"step": step, "time": 1000.0 + 7.5 * step}) for step in range(5)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    assert seconds_of(tmp_path) == 30.0


def test_folders_without_results_are_named(tmp_path):
    for stages, said in (
        ([], "none of them"),
        ([{"name": "sft", "results": str(tmp_path)}], f"stages.sft: {tmp_path}"),
    ):
        with pytest.raises(SettingsError, match=said):
            write_report(build(ReportSettings, {"output_dir": str(tmp_path / "out"), "stages": stages}))


IFEVAL = {"prompt_strict": {"scores": {"prompt_strict": {"value": 0.5, "stats": {"stderr": 0.1}}}}}
OTHERS = {
    "gsm8k": {"exact_match,strict-match": 0.25, "exact_match_stderr,strict-match": 0.1, "alias": "gsm8k"},
    "acc": {"acc,none": 0.75, "sample_len": 10},
    "launcher.ifeval": {"config": {"params": {"limit": 3}}, "results": {"tasks": {"ifeval": {"metrics": IFEVAL}}}},
}
"""Of lm-eval and of NeMo Evaluator's launcher."""


def test_tasks_of_any_name_are_told(run_recipe, tmp_path):
    (tmp_path / "results.json").write_text(json.dumps({"results": OTHERS}))
    holes = {"output_dir": tmp_path / "out", "pretrain__path": "null", "rl__path": "null", "sft__path": tmp_path}
    holes |= {f"{stage}_model__path": "null" for stage in ("pretrain", "sft", "rl")}
    config = recipe_config(REPORT, "default", **holes)
    for stage in config["stages"]:
        stage |= {key: None for key, value in stage.items() if value == "null"}
    done = run_recipe(REPORT, config)
    assert done.returncode == 0, done.stderr
    scores = json.loads((tmp_path / "out" / "results.json").read_text())["results"]
    known = {"gsm8k exact_match,strict-match": 0.25, "acc acc": 0.75, "launcher.ifeval prompt_strict": 0.5}
    assert scores == {"sft": known}
    assert (tmp_path / "out" / "chain.png").is_file()


def test_many_scores_stand_below_each_other():
    found = {stage: {f"task{number} acc": number / 10 for number in range(7)} for stage in ("sft", "rl")}
    lines = table(found)
    assert lines[0].split() == ["stage", "sft", "rl"] and len(lines) == 8
    assert lines[3].split() == ["task2", "acc", "0.200", "0.200"]


def test_results_without_a_score_are_refused_and_nothing_is_written(tmp_path):
    (tmp_path / "results.json").write_text('{"results": {"launcher.ifeval": {"config": {"limit": 1}}}}')
    stages = [{"name": "sft", "results": str(tmp_path)}]
    with pytest.raises(SettingsError, match=f"no task has a score in {tmp_path}"):
        write_report(build(ReportSettings, {"output_dir": str(tmp_path / "out"), "stages": stages}))
    assert not (tmp_path / "out").exists()


def test_the_recipe_writes_a_table_a_figure_and_all_scores(run_recipe, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "metrics.jsonl").write_text('{"time": 10.0}\n{"time": 52.0}\n')
    holes = {"output_dir": tmp_path / "out", "pretrain__path": results(tmp_path / "p", 0.0, 900.0, 3.5)}
    holes |= {"sft__path": results(tmp_path / "s", 0.25, 2.5), "rl__path": results(tmp_path / "r", 0.5, 2.0)}
    holes |= {"sft_model__path": model, "pretrain_model__path": tmp_path / "gone", "rl_model__path": model}
    done = run_recipe(REPORT, recipe_config(REPORT, "default", **holes))
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out" / "report.txt").read_text()
    assert text in done.stdout and text.splitlines()[2].split() == ["sft", "0.250", "2.500", "–", "42"]
    assert (tmp_path / "out" / "chain.png").read_bytes().startswith(b"\x89PNG")
    scores = json.loads((tmp_path / "out" / "results.json").read_text())["results"]
    assert list(scores) == ["pretrain", "sft", "rl"] and scores["rl"]["exact match"] == 0.5


def test_the_pipe_wires_every_stage_to_the_one_before(nemotron):
    page = nemotron("nano3", "pipe", "-c", "tiny", "--dry-run").succeeds().out
    text = " ".join(page.split())
    for line in (
        "base: pretrain.model",
        "base: sft.model",
        "data: data-rl.data",
        "model: rl.model",
        "rl: eval-rl.results",
    ):
        assert line in text
    assert "10 steps, 10 to run" in text
