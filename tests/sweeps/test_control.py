"""A sweep from another terminal: shown while it runs, ended as a whole, waited for, removed."""

from __future__ import annotations

import time

import pytest

from nemo_runspec.jobs import JobStore
from nemo_runspec.sweeps.store import SweepStore

BODY = """\
import json, os, time
with open(os.environ["NEMOTRON_METRICS_FILE"], "a") as file:
    print(json.dumps({"step": 1, "loss": 0.5}), file=file)
time.sleep(float(os.environ.get("NAP", "0.2")))
"""


@pytest.fixture
def sweeps(project):
    project.write("env.toml", '[local]\nexecutor = "local"\n')
    project.recipe("toy/train", body=BODY, default="lr: 0.1\n")
    return SweepStore(project.state / "sweeps")


def until(look, seconds=60.0):
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
    return found


def start(nemotron_process, sweeps, **environment):
    nemotron_process("toy", "train", "--batch", "local", "-m", "lr=1,2,3", **environment).succeeds()
    (name,) = sweeps.names()
    return name


def test_a_detached_sweep_is_waited_for_and_shown(project, nemotron_process, sweeps):
    name = start(nemotron_process, sweeps)
    assert nemotron_process("jobs", "wait", name).code == 0
    assert [member.state for member in sweeps.get(name).members] == ["succeeded"] * 3
    shown = nemotron_process("jobs", "show", name, "--sort", "lr", "--json").succeeds().json
    assert shown["group"] == name
    assert len(shown["members"]) == 3
    nemotron_process("jobs", "show", name, "--sort", "nothing").refuses("nothing")


def test_cancel_ends_what_runs_and_starts_no_more(project, nemotron_process, sweeps):
    name = start(nemotron_process, sweeps, NAP="60")
    store = JobStore(project.state / "jobs")
    until(lambda: any(r.state == "running" for r in store.list()))
    nemotron_process("jobs", "rm", name).refuses("jobs cancel")
    nemotron_process("jobs", "cancel", name).succeeds()
    sweep = sweeps.get(name)
    assert sweep.ended is not None
    assert [member.state for member in sweep.members] == ["cancelled", "not run", "not run"]
    assert nemotron_process("jobs", "wait", name).code == 143


def test_rm_removes_the_sweep_and_its_jobs_and_nothing_else(project, nemotron_process, sweeps):
    nemotron_process("toy", "train").succeeds()
    name = start(nemotron_process, sweeps)
    nemotron_process("jobs", "wait", name).succeeds()
    nemotron_process("jobs", "rm", name).succeeds()
    assert sweeps.names() == []
    assert [r.group for r in JobStore(project.state / "jobs").list()] == [None]


def test_sort_belongs_to_sweeps(project, nemotron_process, sweeps):
    nemotron_process("toy", "train").succeeds()
    nemotron_process("jobs", "show", "last", "--sort", "loss").refuses("--sort")
