"""`--name`, `--tag`, `--note`: in the plan, in the record, in lists, and jobs found by them."""

from __future__ import annotations

import json
import re

import pytest
from job_records import record, stored
from support import HEADER

from nemo_runspec.records import JobStore

ENDED = ("planned", "starting", "running", "succeeded")
LABELS = ("--name", "baseline", "--tag", "lr-study", "--tag", "team=asr", "--note", "the run of the paper")


@pytest.fixture
def toy(project):
    project.recipe("toy", body="print('ok')\n")
    return project


def shown(nemotron, name):
    return nemotron("jobs", "show", name, "--json").json


def test_a_job_has_its_labels_in_its_record_and_in_every_view(toy, nemotron_process):
    assert nemotron_process("toy", *LABELS).code == 0
    found = shown(nemotron_process, "baseline")
    assert re.fullmatch(r"baseline-\d{4}-[0-9a-z]{8}", found["name"])
    assert (found["tags"], found["note"]) == (["lr-study", "team=asr"], "the run of the paper")
    page = nemotron_process("jobs", "show", "last").out
    assert re.search(r"tags +lr-study, team=asr", page)
    assert re.search(r"note +the run of the paper", page)
    listed = nemotron_process("jobs", "list").out
    assert "[lr-study team=asr]" in listed
    assert "the run of the paper" in listed


def test_a_dry_run_shows_them(toy, nemotron):
    page = nemotron("toy", *LABELS, "-d").succeeds().out
    assert "job baseline-" in page
    assert "tags lr-study, team=asr" in page
    assert "note the run of the paper" in page


def test_a_job_that_is_run_again_keeps_them(toy, nemotron_process):
    assert nemotron_process("toy", *LABELS).code == 0
    assert nemotron_process("jobs", "retry", "last").code == 0
    again = shown(nemotron_process, "last")
    assert again["retry_of"].startswith("baseline-")
    assert again["name"].startswith("baseline-")
    assert (again["tags"], again["note"]) == (["lr-study", "team=asr"], "the run of the paper")


def test_a_saved_plan_keeps_them_and_takes_new_ones(toy, nemotron_process):
    nemotron_process("toy", *LABELS, "-d", "--out", "plan.json").succeeds()
    assert nemotron_process("apply", "plan.json").code == 0
    assert shown(nemotron_process, "last")["tags"] == ["lr-study", "team=asr"]
    assert nemotron_process("apply", "plan.json", "--name", "second", "--tag", "b").code == 0
    second = shown(nemotron_process, "last")
    assert second["name"].startswith("second-")
    assert (second["tags"], second["note"]) == (["b"], "the run of the paper")


def test_a_sweep_and_its_jobs_have_them(toy, nemotron_process):
    assert nemotron_process("toy", *LABELS, "-m", "value=1,2").code == 0
    listed = nemotron_process("jobs", "list", "--tag", "lr-study", "--json").json
    kinds = sorted((each["kind"], re.match(r"(sweep-)?baseline-", each["name"]) is not None) for each in listed)
    assert kinds == [("job", True), ("job", True), ("sweep", True)]


def test_a_script_of_ones_own_has_them(project, nemotron_process):
    project.write("train.py", HEADER + "print('ok')\n")
    assert nemotron_process("run", "./train.py", "--name", "mine", "--tag", "x").code == 0
    assert shown(nemotron_process, "mine")["tags"] == ["x"]


def test_the_python_form_of_a_plan_without_labels_is_that_of_before(toy, nemotron):
    assert "labels" not in nemotron("toy", "-d", "--json").json["plan"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--name", "Llama_LR 3e-4"), ["such as llama-lr-3e-4", "small letters"]),
        (("--name", "x" * 21), ["at most 20"]),
        (("--name", "9lives"), ["such as lives"]),
        (("--name", "last"), ["means the newest job"]),
        (("--name", "a", "--name", "b"), ["--name is given 2 times"]),
        (("--tag", "two words"), ["'two words' is no tag"]),
        (("--tag", ""), ["--tag needs a value"]),
        (("--note", "a\nb"), ["one line"]),
    ],
)
def test_labels_that_are_none_are_refused(toy, nemotron, words, said):
    nemotron("toy", *words).refuses(*said)
    assert nemotron("jobs", "list").out == "No jobs yet.\n"


def test_a_secret_in_a_note_is_not_written_down(toy, nemotron_process):
    key = "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ"
    assert nemotron_process("toy", "--note", f"with {key}", HF_TOKEN=key).code == 0
    assert key not in json.dumps(shown(nemotron_process, "last"))


@pytest.fixture
def tagged(project):
    store = JobStore(project.state / "jobs")
    stored(store, record("a-1120-aaaaaaaa", ENDED, age=900, tags=("x", "y"), profile="laptop"))
    stored(store, record("b-1120-bbbbbbbb", ENDED, age=800, tags=("x",)))
    stored(store, record("c-1120-cccccccc", ENDED, age=700))
    return store


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--tag", "x"], "ba"),
        (["--tag", "x", "--tag", "y"], "a"),
        (["--tag", "x", "--profile", "laptop"], "a"),
        (["--tag", "zzzzzzzz"], ""),
    ],
)
def test_jobs_are_found_by_tag(tagged, nemotron, words, names):
    """The second look is answered by the index."""
    for _ in range(2):
        found = nemotron("jobs", "list", *words, "--json").json
        assert [each["name"][0] for each in found] == list(names)


def test_jobs_are_removed_by_tag_and_a_misspelt_tag_removes_nothing(tagged, nemotron):
    stored(tagged, record("d-1120-dddddddd", ENDED, age=600, tags=("baseline",)))
    nemotron("jobs", "rm", "--tag", "baselin").refuses("no job has the tag 'baselin'", "baseline")
    assert nemotron("jobs", "rm", "--tag", "x", "--json").succeeds().json["removed"] == [
        "b-1120-bbbbbbbb",
        "a-1120-aaaaaaaa",
    ]
    assert [each["name"][0] for each in nemotron("jobs", "list", "--json").json] == ["d", "c"]
