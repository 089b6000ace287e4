"""`--json` of a submission: lines of JSON on standard output, and all that is for people on the error stream."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

FAILING = "import sys\nprint('told by the job', flush=True)\nsys.exit(7)\n"


@pytest.fixture
def toy(project):
    project.recipe("toy", body=FAILING)
    project.recipe("fine", body="print('told by the job')\n")
    return project


def lines(outcome):
    return [json.loads(line) for line in outcome.out.splitlines()]


def test_a_detached_job_is_one_object(toy, nemotron_process):
    outcome = nemotron_process("fine", "--batch", "laptop", "--json", "--tag", "x").succeeds()
    [job] = lines(outcome)
    assert (job["event"], job["kind"], job["recipe"], job["profile"]) == ("submitted", "job", "fine", "laptop")
    assert (job["tags"], job["mode"], job["id"]) == (["x"], "batch", None)
    assert Path(job["directory"]).is_dir()
    assert "runs on without this terminal" in outcome.err
    nemotron_process("jobs", "wait", job["name"]).succeeds()
    assert "told by the job" in Path(job["log"]).read_text()


@pytest.mark.parametrize(("recipe", "code", "state"), [("toy", 7, "failed"), ("fine", 0, "succeeded")])
def test_an_attached_one_ends_with_its_exit_code(toy, nemotron_process, recipe, code, state):
    outcome = nemotron_process(recipe, "--run", "laptop", "--json")
    first, last = lines(outcome)
    assert outcome.code == code
    assert (first["event"], first["over"]) == ("submitted", False)
    assert (last["event"], last["state"], last["exit_code"], last["over"]) == ("ended", state, code, True)
    assert first["name"] == last["name"]
    assert "told by the job" in outcome.err


def test_a_mistake_is_no_object(toy, nemotron_process):
    nemotron_process("fine", "--run", "gone", "--json").refuses("gone")


def test_an_applied_plan_and_a_retried_job_too(toy, nemotron_process):
    nemotron_process("fine", "-d", "--out", "plan.json").succeeds()
    first, last = lines(nemotron_process("apply", "plan.json", "--json").succeeds())
    assert (first["name"], last["state"]) == (last["name"], "succeeded")
    again = lines(nemotron_process("jobs", "retry", "last", "--json").succeeds())
    assert [each["event"] for each in again] == ["submitted", "ended"]
    assert again[0]["name"] != first["name"]


def test_jobs_retried_by_condition_are_an_object_each(toy, nemotron_process):
    for _ in range(2):
        assert nemotron_process("toy").code == 7
    found = lines(nemotron_process("jobs", "retry", "--state", "failed", "-y", "--json").succeeds())
    assert [each["recipe"] for each in found] == ["toy", "toy"]
    nemotron_process("jobs", "wait", *(each["name"] for each in found))


def test_a_sweep_is_an_object_and_its_end_another(toy, nemotron_process):
    outcome = nemotron_process("fine", "-m", "value=1,2", "--json").succeeds()
    first, last = lines(outcome)
    assert (first["kind"], first["event"], last["event"], last["state"]) == ("sweep", "submitted", "ended", "succeeded")
    assert len(last["jobs"]) == 2
    [detached] = lines(nemotron_process("fine", "-m", "value=1,2", "--batch", "laptop", "--json").succeeds())
    assert (detached["kind"], detached["event"]) == ("sweep", "submitted")
    nemotron_process("jobs", "wait", detached["name"]).succeeds()


def test_a_number_that_json_has_not_is_its_text(project, nemotron_process):
    project.recipe(
        "nan", body="import os\nopen(os.environ['NEMOTRON_METRICS_FILE'], 'a').write('{\"loss\": NaN}\\n')\n"
    )
    out = nemotron_process("nan", "--json").succeeds().out
    assert "NaN" not in out
    assert lines(nemotron_process("nan", "--json"))[1]["metrics"] == {"loss": "nan"}
