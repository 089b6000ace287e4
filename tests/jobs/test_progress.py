"""How far a job is, of what it has written and what its config says; what neither says is not known."""

from __future__ import annotations

import json
import time

import pytest
from job_records import record

from nemo_runspec.records.facts import JobFacts
from nemo_runspec.records.progress import MetricsEnds, ends_of, keep_progress, known_progress, progress_of, total_in

RUNNING = ("planned", "starting", "running")


def ends(*last, first=None, changed=1000.0):
    lines = [json.dumps(each) for each in last]
    return MetricsEnds(json.dumps(first) if first else lines[0], tuple(lines), changed)


@pytest.mark.parametrize(
    ("config", "total"),
    [
        ({"train": {"train_iters": 39735}}, 39735),
        ({"trainer": {"max_steps": 10}, "max_steps": 3}, 10),
        ({"max_steps": -1}, None),
        ({"train": {"train_iters": "many"}}, None),
        ({"train": 3}, None),
        ({"train_iters": True}, None),
        ({}, None),
    ],
)
def test_a_config_says_how_many_steps_there_are_or_does_not(config, total):
    assert total_in(config) == total


def test_the_last_value_of_each_and_the_time_that_is_left():
    job = record("a-1120-aaaaaaaa", RUNNING, total_steps=500)
    found = progress_of(ends({"step": 10, "loss": 3.0}, {"step": 110, "loss": 2.5}, {"step": 110}), job, 900.0)
    assert (found.step, found.total, found.loss) == (110, 500, 2.5)
    assert found.left == pytest.approx(100 * 390 / 100, abs=5)


@pytest.mark.parametrize(
    ("found", "known", "started"),
    [
        (ends({"step": 10}), {"total_steps": 500}, 900.0),  # one line says nothing of how fast it is
        (ends({"step": 1}, {"step": 9}), {}, 900.0),  # nobody says how many there are
        (ends({"step": 1}, {"step": 9}), {"total_steps": 500}, None),  # nor when it began
        (ends({"step": 1}, {"step": 9}), {"total_steps": 500, "facts": JobFacts(attempt=1)}, 900.0),
        (ends({"step": 1}, {"step": 600}), {"total_steps": 500}, 900.0),
    ],
)
def test_no_time_is_made_up(found, known, started):
    progress = progress_of(found, record("a-1120-aaaaaaaa", RUNNING, **known), started)
    assert progress.step is not None and progress.left is None


@pytest.mark.parametrize("line", ["", "no JSON", "[1]", '{"lr": 0.1}', '{"step": "x"}', '{"loss": null}', "\x00"])
def test_lines_that_say_nothing_of_it_are_no_progress(line):
    assert progress_of(MetricsEnds(line, (line,), 1.0), record("a-1120-aaaaaaaa", RUNNING), 0.0) is None


def test_other_names_of_steps_and_totals():
    job = record("a-1120-aaaaaaaa", RUNNING)
    assert progress_of(ends({"iteration": 3, "train_iters": 9}), job, 0.0).to_json() == {
        "step": 3, "total": 9, "loss": None, "eta_seconds": None,
    }  # fmt: skip


def test_a_file_of_any_size_is_read_at_its_ends(tmp_path):
    file = tmp_path / "metrics.jsonl"
    with file.open("w") as out:
        for step in range(20_000):
            out.write(json.dumps({"step": step, "loss": 1 / (step + 1)}) + "\n")
    job = record("a-1120-aaaaaaaa", RUNNING, total_steps=40_000)
    found = progress_of(ends_of(file), job, file.stat().st_mtime - 100)
    assert (found.first, found.step) == (0, 19_999)
    assert found.left == pytest.approx(100, abs=5)


def test_what_was_fetched_is_kept_and_damage_is_no_progress(tmp_path):
    job = record("a-1120-aaaaaaaa", RUNNING, total_steps=500, handle={"id": "1"})
    assert known_progress(job, tmp_path) is None
    found = progress_of(ends({"step": 10}, {"step": 110}, changed=time.time()), job, time.time() - 100)
    keep_progress(tmp_path, found)
    assert known_progress(job, tmp_path) == found
    assert known_progress(record("a-1120-aaaaaaaa", (*RUNNING, "succeeded"), handle={"id": "1"}), tmp_path) is None
    for text in ("", "[]", '{"step": "x"}', "{"):
        (tmp_path / "progress.json").write_text(text)
        assert known_progress(job, tmp_path) is None
