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


def test_its_functions_stay_functions_whatever_is_imported():
    """Importing a module sets an attribute of its package: none may have a function's name."""
    modules = {module.name for module in pkgutil.iter_modules(nemo_runspec.__path__)}
    assert "records" in modules
    assert not modules & set(nemo_runspec.__all__)
    assert dir(nemo_runspec) == sorted(nemo_runspec.__all__)
