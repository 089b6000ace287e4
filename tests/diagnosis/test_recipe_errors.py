"""Errors that a recipe knows of itself are told by `jobs diagnose`, also when the recipe is gone."""

from __future__ import annotations

import json
import shutil

import pytest
from support import process

from nemo_runspec.diagnosis.causes import cause_of
from nemo_runspec.diagnosis.engine import diagnose
from nemo_runspec.diagnosis.known_errors import KnownError, find_known, known_of_folder, read_known
from nemo_runspec.diagnosis.model import Case, Message, Platform
from nemo_runspec.planning.codec import plan_from_json, plan_to_json

HEADER = """\
# /// script
# [tool.runspec]
# description = "A recipe that knows its errors."
# [tool.runspec.run]
# launch = "direct"
# [[tool.runspec.errors]]
# pattern = "no blend at .+"
# cause = "The data are not prepared."
# remedy = "nemotron nano3 data prep pretrain"
# [[tool.runspec.errors]]
# pattern = "CUDA out of memory"
# cause = "The packed length is too long for this GPU."
# ///
"""
BLEND, MEMORY = (
    KnownError("no blend at .+", "The data are not prepared.", "nemotron nano3 data prep pretrain"),
    KnownError("CUDA out of memory", "The packed length is too long for this GPU."),
)
PLATFORM = Platform("somewhere", {})


@pytest.mark.parametrize(
    ("body", "cause", "line"),
    [
        ("raise FileNotFoundError('no blend at /data/blend.json')", BLEND, "FileNotFoundError: no blend at /data"),
        ("print('no blend at /data'); raise SystemExit(3)", BLEND, "no blend at /data"),
        ("raise RuntimeError('CUDA out of memory. Tried to allocate')", MEMORY, "CUDA out of memory"),
    ],
)
def test_a_known_error_is_the_diagnosis(project, body, cause, line):
    project.recipe("mine/fail", header=HEADER, body=f"{body}\n")
    assert process(project, "mine", "fail").code not in (0, 2)
    shutil.rmtree(project.folder / "recipes")
    found = process(project, "jobs", "diagnose", "last", "--json").succeeds().json
    assert (found["kind"], found["what"], found["remedy"]) == ("known error", cause.cause, cause.remedy)
    assert line in found["evidence"]
    shown = process(project, "jobs", "diagnose", "last").succeeds().out
    assert cause.cause in shown


def test_another_error_is_told_as_ever(project):
    project.recipe("mine/fail", header=HEADER, body="raise ValueError('a shape is wrong')\n")
    process(project, "mine", "fail")
    assert process(project, "jobs", "diagnose", "last", "--json").succeeds().json["kind"] == "user code"


def test_a_job_that_ended_well_has_none(project):
    project.recipe("mine/fine", header=HEADER, body="print('no blend at /data, so one is made')\n")
    assert process(project, "mine", "fine").code == 0
    assert "not prepared" not in process(project, "jobs", "diagnose", "last").out


def test_they_are_kept_in_a_saved_plan(project, nemotron):
    project.recipe("mine/fail", header=HEADER)
    nemotron("mine", "fail", "--dry-run", "--out", "plan.json").succeeds()
    text = (project.folder / "plan.json").read_text()
    plan = plan_from_json(text, "plan.json")
    assert plan.recipe.errors == (BLEND, MEMORY)
    assert plan_to_json(plan) == text
    assert known_of_folder(project.folder) == (BLEND, MEMORY)
    edited = json.loads(text)
    edited["recipe"]["errors"][0]["pattern"] = "(a+)+$"
    (project.folder / "plan.json").write_text(json.dumps(edited))
    nemotron("apply", "plan.json").refuses("repeats a group")
    assert known_of_folder(project.folder) == (MEMORY,)


def test_a_plan_without_any_is_as_it_was(project, nemotron):
    project.recipe("mine/plain")
    assert "errors" not in nemotron("mine", "plain", "--dry-run", "--json").json["plan"]["recipe"]


@pytest.mark.parametrize(
    "data", [None, 1, "x", [1], [{"pattern": 1}], [{"pattern": "("}], [{"pattern": "", "cause": "x"}]]
)
def test_damaged_ones_are_left_out(data):
    assert read_known(data) == ()


def test_what_a_job_survived_is_not_its_cause():
    lines = ["no blend at /x", *(f"step {n}" for n in range(300))]
    assert find_known([BLEND], "\n".join(lines).encode()) is None


def test_the_rank_that_failed_first_goes_first():
    log = b"[rank0] no blend at /zero\n[rank1] no blend at /one\n"
    found = find_known([BLEND], log, 1)
    assert found is not None and found.line == "no blend at /one"


def test_the_slowest_pattern_that_is_taken_ends_over_a_long_log():
    slow = {"pattern": ".*a.*b", "cause": "c"}
    log = b"\n".join([b"a" * 20_000] * 300)
    assert find_known(read_known([slow]), log) is None


def test_what_the_platform_says_goes_first():
    log = b"no blend at /data\n"
    said = Message("Preempted by a job of a higher priority", now=True)
    assert cause_of(said.text) is not None
    found = diagnose(Case("failed", PLATFORM, tail=log, known=(BLEND,), messages=(said,)))
    assert found is not None and found.kind == "eviction"
    found = diagnose(Case("failed", PLATFORM, tail=log, known=(BLEND,)))
    assert found is not None and found.what == BLEND.cause
