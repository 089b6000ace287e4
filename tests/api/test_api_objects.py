"""What the objects of the Python API look like, and what importing them costs."""

from __future__ import annotations

import pkgutil
from dataclasses import replace

import pytest
from job_records import record, stored

import nemo_runspec
from nemo_runspec.api.sweep import SubmittedSweep
from nemo_runspec.diagnosis.verdict import Diagnosis
from nemo_runspec.errors import UserError
from nemo_runspec.html import facts_table, rows_table
from nemo_runspec.records import JobStore
from nemo_runspec.sweeps.status import Status

EVIL = "<script>alert('&')</script>"


def test_a_plan_says_what_it_is(trains):
    plan = nemo_runspec.plan("nano3/pretrain", config="tiny", profile="my-cluster")
    assert repr(plan) == (
        f"<Plan {plan.name}: nano3/pretrain, config tiny, my-cluster (slurm), 4 nodes, 8 GPUs per node, 04:00:00>"
    )
    assert f"<caption>{plan.name}</caption>" in plan._repr_html_()


def test_texts_are_escaped(trains):
    plan = replace(nemo_runspec.plan("mine/train"), overrides=(EVIL,), profile=EVIL)
    job = nemo_runspec.api.job.Job(EVIL)
    for html in (
        plan._repr_html_(),
        job._repr_html_(),
        facts_table(EVIL, [(EVIL, EVIL)]),
        rows_table(EVIL, [EVIL], [[EVIL]]),
    ):
        assert "<script>" not in html and "&lt;script&gt;" in html


def test_a_job_that_is_gone_has_a_repr(trains):
    assert "it has no record" in repr(nemo_runspec.api.job.Job("gone"))


def test_a_plan_that_cannot_be_saved(trains, tmp_path):
    with pytest.raises(UserError, match="cannot save the plan"):
        nemo_runspec.plan("mine/train").save(tmp_path / "none" / "plan.json")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"overrides": "lr=0.25"}, "overrides is a list of texts, not 'lr=0.25'"),
        ({"overrides": {"lr": 0.25}}, "overrides is a list of texts"),
        ({"overrides": None}, "overrides is a list of texts"),
        ({"overrides": [0.25]}, "each of overrides is text, not 0.25"),
        ({"args": "--lr 1"}, "args is a list of texts, not '--lr 1'"),
        ({"args": ["--lr", 1]}, "each of args is text, not 1"),
        ({"config": {"lr": 1}}, "config is text"),
        ({"profile": 5}, "profile is text, not 5"),
        ({"mode": "Batch"}, "there is no mode 'Batch'"),
        ({"mode": None}, "there is no mode None"),
    ],
)
def test_what_is_no_list_and_no_text_is_refused(trains, given, said):
    with pytest.raises(UserError) as plan:
        nemo_runspec.plan("mine/train", **given)
    with pytest.raises(UserError) as sweep:
        nemo_runspec.sweep("mine/train", **given)
    assert plan.value.what == sweep.value.what and plan.value.what.startswith(said)
    assert nemo_runspec.jobs() == []


def test_a_mistake_about_a_list_shows_the_list(trains):
    with pytest.raises(UserError) as error:
        nemo_runspec.plan("mine/train", overrides="lr=0.25")
    assert error.value.remedy == "such as overrides=['lr=0.25']"


@pytest.mark.parametrize("recipe", [None, 3, b"mine/train"])
def test_what_is_no_recipe(trains, recipe):
    with pytest.raises(UserError, match="recipe is text, not "):
        nemo_runspec.plan(recipe)


def test_a_path_is_text(trains):
    script = trains.folder / "recipes" / "mine" / "train" / "main.py"
    config = trains.write("mine.yaml", "lr: 0.25\nfail: 0\nwait: null\n")
    assert nemo_runspec.plan(script, config=config).config["lr"] == 0.25


@pytest.mark.parametrize("given", [None, "plan.json"])
def test_what_is_no_plan_is_not_submitted(trains, given):
    with pytest.raises(UserError, match="what is submitted is a plan, not ") as error:
        nemo_runspec.submit(given)
    assert "load_plan" in str(error.value.remedy)


def test_a_working_directory_that_is_gone(trains, tmp_path, monkeypatch):
    plan = nemo_runspec.plan("mine/train")
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for asked in (
        lambda: nemo_runspec.plan("mine/train"),
        lambda: nemo_runspec.sweep("mine/train"),
        lambda: nemo_runspec.submit(plan),
    ):
        with pytest.raises(UserError, match="the working directory is gone"):
            asked()
    assert nemo_runspec.jobs() == []


def test_its_functions_stay_functions_whatever_is_imported():
    """Importing a module sets an attribute of its package: none may have a function's name."""
    modules = {module.name for module in pkgutil.iter_modules(nemo_runspec.__path__)}
    assert "records" in modules
    assert not modules & set(nemo_runspec.__all__)
    assert dir(nemo_runspec) == sorted(nemo_runspec.__all__)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda job: job.logs(tail=-1), "tail is a number of lines, not -1"),
        (lambda job: job.logs(tail="2"), "tail is a number of lines, not '2'"),
        (lambda job: job.logs(follow=True, tail=True), "tail is a number of lines, not True"),
        (lambda job: job.wait(timeout=-1), "timeout is a number of seconds, not -1"),
        (lambda job: job.wait(timeout="2"), "timeout is a number of seconds, not '2'"),
        (lambda job: job.wait(timeout=float("nan")), "timeout is a number of seconds, not nan"),
        (lambda job: job.cancel(grace=None), "grace is a number of seconds, not None"),
        (lambda job: SubmittedSweep("x").wait(timeout=-1), "timeout is a number of seconds, not -1"),
        (lambda job: SubmittedSweep("x").cancel(grace="soon"), "grace is a number of seconds, not 'soon'"),
        (lambda job: nemo_runspec.job(None), "name is text, not None"),
        (lambda job: nemo_runspec.job(3), "name is text, not 3"),
        (lambda job: nemo_runspec.find_sweep(3), "name is text, not 3"),
    ],
)
def test_what_is_no_number_and_no_name_is_refused(trains, call, said):
    with pytest.raises(UserError) as error:
        call(nemo_runspec.api.job.Job("x"))
    assert error.value.what == said


def test_a_sweep_that_there_is_not(trains):
    with pytest.raises(UserError, match="no sweep is recorded yet"):
        nemo_runspec.find_sweep("")
    stored(JobStore(), record("mine", ("planned", "succeeded")))
    for word in ("", "gone"):
        with pytest.raises(UserError, match=f"no sweep '{word}'"):
            nemo_runspec.find_sweep(word)


def test_plans_that_are_equal_are_one_in_a_set(trains, tmp_path):
    plan = nemo_runspec.plan("mine/train")
    loaded = nemo_runspec.load_plan(plan.save(tmp_path / "plan.json"))
    assert {plan, loaded} == {plan} and hash(plan) == hash(loaded)
    assert len({plan, nemo_runspec.plan("mine/train")}) == 2


def test_a_remedy_is_one_that_python_has(trains, tmp_path):
    with pytest.raises(UserError) as error:
        nemo_runspec.plan("mine/train", overrides=["lr=1,2"])
    assert "nemo_runspec.sweep" in str(error.value.remedy)
    (tmp_path / "no.json").write_text("{}")
    with pytest.raises(UserError) as error:
        nemo_runspec.load_plan(tmp_path / "no.json")
    assert "plan.save(" in str(error.value.remedy)


def test_a_status_and_a_diagnosis_show_themselves():
    html = Status("failed", EVIL, 3)._repr_html_()
    assert "<caption>failed</caption>" in html and "<td style='text-align:left'>3</td>" in html
    assert "<script>" not in html + Diagnosis("user code", EVIL, EVIL, EVIL)._repr_html_()
    assert "<caption>not known</caption>" in Diagnosis("", "it said so last")._repr_html_()
