"""A sweep from another terminal: shown while it runs, ended as a whole, waited for, removed."""

from __future__ import annotations

import os
import re
import signal

import pytest
from waiting import until

from nemo_runspec.records import JobStore
from nemo_runspec.sweeps.store import SweepStore

BODY = """\
import json, os, sys, time
with open(os.environ["NEMOTRON_METRICS_FILE"], "a") as file:
    print(json.dumps({"step": 1, "loss": 0.5}), file=file)
config = open(sys.argv[sys.argv.index("--config") + 1]).read()
if "lr: 1" not in config.splitlines() or "ALL_NAP" in os.environ:
    time.sleep(float(os.environ.get("NAP", "0.2")))
"""
"""The run of `lr=1` naps only where all do."""

FOR_LONG = "600"
PATIENT = ("--grace", "60")
"""A sweep has this long, and some more, to write down its end."""


@pytest.fixture
def sweeps(project):
    project.write("env.toml", '[local]\nexecutor = "local"\n')
    project.recipe("toy/train", body=BODY, default="lr: 0.1\n")
    return SweepStore(project.state / "sweeps")


def start(nemotron_process, sweeps, **environment):
    nemotron_process("toy", "train", "--batch", "local", "-m", "lr=1,2,3", **environment).succeeds()
    (name,) = sweeps.names()
    return name


@pytest.mark.slow
def test_a_detached_sweep_is_waited_for_and_shown(project, nemotron_process, sweeps):
    name = start(nemotron_process, sweeps)
    assert nemotron_process("jobs", "wait", name).code == 0
    assert [member.state for member in sweeps.get(name).members] == ["succeeded"] * 3
    shown = nemotron_process("jobs", "show", name, "--sort", "lr", "--json").succeeds().json
    assert shown["group"] == name
    assert len(shown["members"]) == 3
    nemotron_process("jobs", "show", name, "--sort", "nothing").refuses("nothing")


@pytest.mark.slow
def test_cancel_ends_what_runs_and_starts_no_more(project, nemotron_process, sweeps):
    name = start(nemotron_process, sweeps, NAP=FOR_LONG, ALL_NAP="1")
    store = JobStore(project.state / "jobs")
    until(lambda: any(r.state == "running" for r in store.list()), "its first run")
    nemotron_process("jobs", "rm", name).refuses("jobs cancel")
    nemotron_process("jobs", "cancel", name, *PATIENT).succeeds()
    sweep = sweeps.get(name)
    assert (sweep.verdict, sweep.exit_code, sweep.cause) == ("cancelled", 143, "cancelled by nemotron jobs cancel")
    assert [member.state for member in sweep.members] == ["cancelled", "not run", "not run"]
    assert nemotron_process("jobs", "wait", name).code == 143


@pytest.mark.slow
def test_a_sweep_that_was_killed_is_lost(project, nemotron_process, sweeps):
    """Its one job has succeeded, and nobody may take that for a sweep that has."""
    name = start(nemotron_process, sweeps, NAP=FOR_LONG)
    store = JobStore(project.state / "jobs")
    until(lambda: any(r.state == "succeeded" for r in store.list()), "the end of its first run")
    os.kill(sweeps.get(name).launcher.pid, signal.SIGKILL)
    done = nemotron_process("jobs", "wait", name)
    assert done.code == 1
    assert re.search(rf"{name}: lost, exit code 1: its process was killed", done.out)
    until(lambda: all(r.over for r in store.list()), "the end of its second run")
    assert re.search(rf"{name} +lost .*its process was killed", nemotron_process("jobs", "list").out)
    lost = nemotron_process("jobs", "list", "--state", "lost", "--json").json
    assert [each["name"] for each in lost if each["kind"] == "sweep"] == [name]
    shown = nemotron_process("jobs", "show", name, "--json").json
    assert (shown["state"], shown["exit_code"]) == ("lost", 1)
    assert f"{name}: already lost" in nemotron_process("jobs", "cancel", name).succeeds().out
    nemotron_process("jobs", "rm", name).succeeds()
    assert (sweeps.names(), store.list()) == ([], [])


@pytest.mark.slow
def test_a_sweeper_that_fails_leaves_word(project, nemotron_process, sweeps):
    words = ("hydra/sweeper=optuna", "hydra.sweeper.n_trials=0", "lr=interval(0.1,1)")
    nemotron_process("toy", "train", "--batch", "local", "-m", *words).succeeds()
    (name,) = sweeps.names()
    done = nemotron_process("jobs", "wait", "last")
    assert done.code == 2
    why = "the sweeper 'optuna' has failed"
    assert f"{name}: failed, exit code 2: {why}" in done.out
    assert why in nemotron_process("jobs", "show", name).succeeds().out
    assert re.search(rf"{name} +failed .*{why}", nemotron_process("jobs", "list").out)
    assert nemotron_process("jobs", "list", "--json").json[0]["exit_code"] == 2


@pytest.mark.slow
def test_cancelled_at_once(project, nemotron_process, sweeps):
    """A sweep is `last` from the moment it was submitted, and may be ended from then on."""
    earlier = nemotron_process("toy", "train", "--batch", "local", NAP=FOR_LONG).succeeds().out.strip()
    name = start(nemotron_process, sweeps, NAP=FOR_LONG, ALL_NAP="1")
    nemotron_process("jobs", "cancel", "last", *PATIENT).succeeds()
    assert sweeps.get(name).verdict == "cancelled"
    store = JobStore(project.state / "jobs")
    assert not store.get(earlier).over
    nemotron_process("jobs", "cancel", earlier).succeeds()


@pytest.mark.slow
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
