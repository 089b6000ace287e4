"""What a job is called, and variables of its environment, given from Python as on the command line."""

from __future__ import annotations

import json

import pytest
from support import contents

import nemo_runspec
from nemo_runspec.errors import UserError

CALLED = {"name": "baseline", "tags": ["lr-study", "team=asr"], "note": "the run of the paper"}
SECRET = "not-so-secret-value"


@pytest.fixture
def told(project):
    """A recipe that prints some of its environment."""
    names = "'COLOUR', 'SIZE', 'MY_TOKEN'"
    project.recipe("told", body=f"import os\nprint(*(os.environ.get(name, '-') for name in ({names})))\n")
    return project


def test_a_job_is_found_by_what_it_is_called(told, nemotron):
    plan = nemo_runspec.plan("told", **CALLED)
    job = nemo_runspec.submit(plan)
    assert job.wait() == 0
    assert job.name.startswith("baseline-")
    assert (job.record.tags, job.record.note) == (("lr-study", "team=asr"), "the run of the paper")
    [listed] = nemotron("jobs", "list", "--tag", "lr-study", "--json").json
    assert listed["name"] == job.name
    words = ["--name", "baseline", "--tag", "lr-study", "--tag", "team=asr", "--note", "the run of the paper"]
    same = ("nemotron", "told", "-c", "default", *words)
    assert job.record.argv == same, "the command that does the same"


def test_variables_are_those_of_the_job_alone_and_a_secret_is_written_nowhere(told):
    env = {"COLOUR": "deep blue", "SIZE": "", "MY_TOKEN": SECRET}
    job = nemo_runspec.submit(nemo_runspec.plan("told", env=env))
    assert job.wait() == 0
    assert list(job.logs()) == ["deep blue  ******"]
    assert [str(path) for path, content in contents(told.home).items() if SECRET.encode() in content] == []
    assert job.record.argv == (
        "nemotron",
        "told",
        "-c",
        "default",
        "--env",
        "COLOUR",
        "--env",
        "SIZE",
        "--env",
        "MY_TOKEN",
    )


def test_a_sweep_and_its_runs(told, nemotron):
    sweep = nemo_runspec.sweep("told", overrides=["value=1,2"], env={"COLOUR": "red"}, **CALLED)
    assert sweep.wait() == 0
    assert sweep.name.startswith("sweep-baseline-")
    assert {next(run.logs()) for run in sweep.runs} == {"red - -"}
    assert {(run.record.tags, run.record.note) for run in sweep.runs} == {(("lr-study", "team=asr"), CALLED["note"])}
    [line] = [line for line in nemotron("jobs", "list").out.splitlines() if line.startswith("sweep-baseline-")]
    assert "[lr-study team=asr]; 2 succeeded; the run of the paper" in line
    [listed] = [each for each in nemotron("jobs", "list", "--json").json if each["kind"] == "sweep"]
    assert (listed["tags"], listed["note"]) == (CALLED["tags"], CALLED["note"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "Llama LR"}, "is no beginning of a job's name"),
        ({"name": 3}, "name is text, not 3"),
        ({"tags": "lr-study"}, "tags is a list of texts, not 'lr-study'"),
        ({"tags": ["two words"]}, "'two words' is no tag"),
        ({"note": ["a"]}, "note is text"),
        ({"note": "a\nb"}, "one line"),
        ({"env": ["A=1"]}, "env is a table of texts"),
        ({"env": {"A": 1}}, "env is a table of texts, not one of A"),
        ({"env": {"A=B": "1"}}, "'A=B' is not the name of an environment variable"),
        ({"env": {"9": "1"}}, "'9' is not the name of an environment variable"),
    ],
)
def test_what_is_none_of_these_is_refused(told, given, said):
    for make in (nemo_runspec.plan, nemo_runspec.sweep):
        with pytest.raises(UserError) as error:
            make("told", **given)
        assert said in error.value.what
    assert nemo_runspec.jobs() == []


def test_a_saved_plan_keeps_what_it_is_called(told, tmp_path):
    plan = nemo_runspec.plan("told", **CALLED)
    again = nemo_runspec.load_plan(plan.save(str(tmp_path / "plan.json")))
    assert again == plan
    assert json.loads((tmp_path / "plan.json").read_text())["labels"]["name"] == "baseline"
