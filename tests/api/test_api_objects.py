"""What the objects of the Python API look like, and what importing them costs."""

from __future__ import annotations

import pkgutil
from dataclasses import replace

import pytest

import nemo_runspec
from nemo_runspec.errors import UserError
from nemo_runspec.html import facts_table, rows_table

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
