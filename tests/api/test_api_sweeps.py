"""Sweeps from Python: real runs of this machine."""

from __future__ import annotations

import pytest

import nemo_runspec
from nemo_runspec.errors import UserError

pytestmark = pytest.mark.slow


def test_a_sweep_of_two(trains, capfd):
    sweep = nemo_runspec.sweep("mine/train", overrides=["lr=0.5,0.25"])
    assert sweep.wait() == 0 and sweep.status().state == "succeeded"
    assert [job.wait() for job in sweep.runs] == [0, 0]
    best = sweep.best()
    assert best is not None and best.metrics()["loss"] == 0.5
    assert [(row["lr"], row["loss"], row["best"]) for row in sweep.results()] == [
        ("0.25", 0.5, True),
        ("0.5", 1, False),
    ]
    assert f"<td>{best.name}</td>" in sweep._repr_html_()
    assert "succeeded, 2 runs of mine/train" in repr(sweep)
    assert nemo_runspec.find_sweep("last") == nemo_runspec.find_sweep(sweep.name) == sweep
    with pytest.raises(UserError, match="is a job, and a sweep is needed"):
        nemo_runspec.find_sweep(best.name)
    with pytest.raises(UserError, match="is a sweep of 2 jobs"):
        nemo_runspec.job(sweep.name)
    assert capfd.readouterr() == ("", ""), "a library prints nothing"


def test_its_failed_runs_are_run_again(trains):
    sweep = nemo_runspec.sweep("mine/train", overrides=["fail=0,6"])
    assert sweep.wait() == 6 and sweep.status().state == "failed"
    first = sweep.runs
    assert sweep.retry().wait() == 6
    assert sweep.runs[0] == first[0] and sweep.runs[1] != first[1]


def test_it_is_ended(trains, tmp_path):
    sweep = nemo_runspec.sweep("mine/train", overrides=["lr=1,2,3", f"wait={tmp_path}/never"])
    with pytest.raises(TimeoutError):
        sweep.wait(timeout=0.01)
    assert sweep.cancel().state == "cancelled"
    assert sweep.wait() == 143
    assert all(job.status().over for job in sweep.runs)


def test_a_mistake_starts_nothing(trains):
    with pytest.raises(UserError, match="nope"):
        nemo_runspec.sweep("mine/train", overrides=["run.env.nope=1,2"])
    assert nemo_runspec.jobs() == []
