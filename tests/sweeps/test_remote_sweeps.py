"""Sweeps on a platform, as far as no platform is needed: what goes together, what is sent, how a sweep is called."""

from __future__ import annotations

import dataclasses
import os
import posixpath
import sys
from pathlib import Path

import pytest
from job_records import record, stored
from sweep_records import sweep_of

from nemo_runspec import paths
from nemo_runspec.backends.slurm.array import array_key, make_array
from nemo_runspec.backends.slurm.verified import assert_same, is_proved
from nemo_runspec.plans.model import AutoMount
from nemo_runspec.records import JobStore
from nemo_runspec.records.lifecycle import Launcher
from nemo_runspec.records.lock import locked
from nemo_runspec.records.process import this_process
from nemo_runspec.script.programs import PROGRAMS
from nemo_runspec.source import Layer, Source
from nemo_runspec.sweeps.control import goes_on
from nemo_runspec.sweeps.model import Member
from nemo_runspec.sweeps.remote import Batch, batches_of, how_it_goes, parallel_of
from nemo_runspec.sweeps.settle import settled
from nemo_runspec.sweeps.status import status_of
from nemo_runspec.sweeps.store import SweepStore

sys.path.insert(0, str(Path(__file__).parents[1] / "slurm"))
from slurm_jobs import slurm_plan

GROUP = "sweep-test-1121-abcdefgh"
PROFILE = {"account": "acme", "partition": "batch"}


@pytest.fixture
def plans(tmp_path):
    """`plans(PROFILE, …)`: a plan for each, otherwise alike."""

    def make(*profiles):
        return [slurm_plan(tmp_path, "print(1)", {**PROFILE, **profile}) for profile in profiles]

    return make


def test_runs_of_one_shape_are_one_array_under_the_sweeps_name(plans):
    batches = batches_of(GROUP, plans({}, {}, {}))
    assert batches == [Batch(GROUP, (0, 1, 2))]
    assert how_it_goes(batches) == ""


@pytest.mark.parametrize(
    "other",
    [{"nodes": 2}, {"time": "00:01:00"}, {"partition": "cpu"}, {"container_image": "a.sqsh"}, {"retries": 1},
     {"comment": "x"}, {"setup_lines": "true"}, {"health_check": True}],
    ids=lambda other: next(iter(other)),
)  # fmt: skip
def test_whatever_is_asked_for_otherwise_is_another_shape(plans, other):
    made = plans({}, {}, other, other)
    if "nodes" in other:
        made[2:] = [dataclasses.replace(p, resources=dataclasses.replace(p.resources, nodes=2)) for p in made[2:]]
    batches = batches_of(GROUP, made)
    assert [batch.members for batch in batches] == [(0, 1), (2, 3)]
    assert [batch.name for batch in batches] == [f"{GROUP}-1", f"{GROUP}-2"]
    assert how_it_goes(batches) == "the runs differ in what they ask for: 2 job arrays (2, 2 runs)"


def test_one_of_its_shape_is_a_job_and_an_array_is_none_of_an_array(plans):
    made = plans({}, {"time": "00:01:00"}, {}, {"array": "0-1"}, {"array": "0-1"})
    batches = batches_of(GROUP, made)
    assert [batch.members for batch in batches] == [(0, 2), (1,), (3,), (4,)]
    assert [batch.name for batch in batches] == [GROUP, *(made[index].name for index in (1, 3, 4))]
    assert how_it_goes(batches).endswith("a job array of 2 runs and 3 jobs by themselves")


def test_other_code_or_another_repository_is_another_shape_and_another_value_is_not(plans):
    first, second = plans({}, {})
    assert array_key(first) == array_key(dataclasses.replace(second, config={"lr": 1}, overrides=("lr=1",)))
    checkouts = [AutoMount("u", "main", f"/repos/jobs/{name}/x", "/opt/x", there="mounts/x") for name in "ab"]
    mounted = [dataclasses.replace(plan, auto_mounts=(c,)) for plan, c in zip((first, second), checkouts, strict=True)]
    assert array_key(mounted[0]) == array_key(mounted[1]) != array_key(first)
    package = dataclasses.replace(second.package, kind="git", digest="abc")
    assert array_key(first) != array_key(dataclasses.replace(second, package=package))


@pytest.mark.slow
@pytest.mark.parametrize(
    "profile", [{}, {"container_image": "a.sqsh", "health_check": True}], ids=["bare", "container"]
)
def test_the_batch_script_of_an_array_is_nemo_runs(plans, profile):
    array = make_array(GROUP, plans(*[profile] * 5), parallel=2)
    assert_same(array.plan)
    assert is_proved(array.plan), "none is compared before it is sent"
    script = array.shared[0].text
    assert "#SBATCH --array=0-4%2\n" in script
    assert f"#SBATCH --job-name={GROUP}\n" in script
    assert array.plan.job_dir == posixpath.join(posixpath.dirname(plans({})[0].job_dir), GROUP)


def test_every_task_has_its_own_script_and_shares_the_rest(plans):
    array = make_array(GROUP, plans({"health_check": True}, {"health_check": True}), parallel=9)
    first, second = array.own(0)[0], array.own(1)[0]
    assert (first.name, second.name) == (f"scripts/{GROUP}.sh",) * 2
    assert f"nemotron_root={array.plan.job_dir}/members/1\n" in second.text
    assert f"{array.plan.job_dir}/members/0" not in second.text
    assert array.members[1].name in second.text
    assert array.plan.target.array == "0-1"
    assert dict(array.links) == {name: f"../../{name}" for name in ("bundle", *PROGRAMS)}


def test_how_many_at_a_time_is_the_queues_to_say_unless_somebody_did(plans):
    (plan,) = plans({"max_parallel": 1})
    plan = dataclasses.replace(plan, run={"env": {"max_parallel": 1}})

    def given(layer):
        return dataclasses.replace(plan, sources={"run.env.max_parallel": Source(layer)})

    assert parallel_of(given(Layer.DEFAULT)) is None
    assert parallel_of(given(Layer.CLI)) == 1


def test_a_dry_run_shows_the_array(project, nemotron):
    words = ("nano3", "pretrain", "-c", "tiny", "--run", "my-cluster", "-m", "optimizer.lr=1,2", "--dry-run")
    shown = nemotron(*words).succeeds().out
    assert "one job array of 2 runs" in shown
    assert "#SBATCH --array=0-1\n" in shown
    first, second = (each["rendering"] for each in nemotron(*words, "--json").succeeds().json)
    assert first["command"] == second["command"]
    scripts = [rendering["files"][0]["name"].split("/")[:2] for rendering in (first, second)]
    assert scripts == [["members", "0"], ["members", "1"]]
    assert not project.state.exists()


def alone(*states, launcher=None):
    members = [
        Member(index, f"job-{index}", "/nowhere", {}, record(f"job-{index}", ("planned", state), exit_code=code))
        for index, (state, code) in enumerate(states)
    ]
    return dataclasses.replace(sweep_of(*members), unattended=True, launcher=launcher, host=os.uname().nodename)


@pytest.mark.parametrize(
    ("states", "state", "code"),
    [
        ([("queued", None), ("queued", None)], "queued", None),
        ([("queued", None), ("running", None), ("failed", 3)], "running", None),
        ([("unknown", None), ("succeeded", 0)], "unknown", None),
        ([("succeeded", 0), ("failed", 3), ("failed", 4)], "failed", 3),
        ([("succeeded", 0), ("succeeded", 0)], "succeeded", 0),
    ],
)
def test_the_state_of_a_sweep_without_a_process_is_its_members(states, state, code):
    status = status_of(alone(*states))
    assert (status.state, status.exit_code) == (state, code)
    assert not goes_on(alone(*states))  # there is no process to be waited for


def test_while_it_is_submitted_it_goes_on_and_after_a_kill_its_members_say_how_it_is():
    assert goes_on(alone(("planned", None), launcher=this_process()))
    killed = Launcher(2**22 - 1, "1", this_process().machine)
    assert not goes_on(alone(("unknown", None), launcher=killed))
    assert status_of(alone(("unknown", None), launcher=killed)).state == "unknown"


@pytest.fixture
def over(tmp_path, monkeypatch):
    """A sweep that nobody watches over and whose jobs have ended; its end is not on record."""
    monkeypatch.setenv("NEMOTRON_HOME", str(tmp_path))
    made = alone(("succeeded", 0), ("failed", 3))
    members = [dataclasses.replace(m, job_dir=str(paths.jobs_dir() / m.name)) for m in made.members]
    for each in members:
        stored(JobStore(), each.record)
    sweep = dataclasses.replace(made, members=tuple(members))
    SweepStore().write(sweep)
    return sweep


def test_its_end_is_written_down_by_whoever_settles_it(over):
    store = SweepStore()
    file = store.folder(over.group) / "sweep.json"
    before = file.read_bytes()
    found = store.read(over.group)
    assert (found.verdict, found.exit_code, found.ended is not None) == ("failed", 3, True)
    assert [entry.over for entry in store.entries()] == [True]
    assert file.read_bytes() == before, "a read writes nothing"
    assert settled(store, over.group).verdict == "failed"
    assert '"verdict": "failed"' in file.read_text()
    assert [entry.over for entry in store.entries()] == [True]


def test_who_runs_it_once_more_meanwhile_is_not_undone(over):
    """The run is decided upon while another process holds the record, and is not the old end's to overwrite."""
    store = SweepStore()
    again = dataclasses.replace(over, tags=("again",), members=(*over.members, Member(2, "gone", "/nowhere", {})))
    with locked(store.folder(over.group)):
        assert settled(store, over.group).verdict == "failed", "it is said, and not written: somebody writes"
    assert '"verdict": ""' in (store.folder(over.group) / "sweep.json").read_text()
    store.write(again)
    settled(store, over.group)
    assert store.read(over.group).tags == ("again",)


def test_a_sweep_none_of_whose_jobs_is_there(tmp_path, monkeypatch):
    monkeypatch.setenv("NEMOTRON_HOME", str(tmp_path))
    store, made = SweepStore(), alone(("succeeded", 0), ("failed", 3))
    store.write(made)
    assert status_of(store.read(made.group)).state == "unknown"  # none of its jobs is there
