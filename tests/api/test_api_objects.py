"""What the objects of the Python API look like, and what importing them costs."""

from __future__ import annotations

import subprocess
import sys
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


def test_its_functions_stay_functions_whatever_is_imported(trains):
    """`jobs` is a package of the toolkit too."""
    words = "import nemo_runspec; first = nemo_runspec.jobs(); import nemo_runspec.jobs.store as store; "
    words += "from nemo_runspec.jobs import JobStore; print(first, nemo_runspec.jobs(), JobStore is store.JobStore)"
    done = subprocess.run(
        [sys.executable, "-c", words], env=trains.environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout == "[] [] True\n"
