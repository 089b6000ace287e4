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
