"""Jobs chosen by conditions: `cancel`, `stop`, `wait`, `status`, `retry`, and the question that comes first."""

from __future__ import annotations

import pytest
from job_records import record, stored
from terminals import in_terminal
from waiting import until

from nemo_runspec.records import JobStore

ENDED = ("planned", "starting", "running", "succeeded")
FAILED = ("planned", "starting", "running", ("failed", "exit code 3"))


@pytest.fixture
def sleeper(project):
    project.recipe("toy", body="import time\nprint('up', flush=True)\ntime.sleep(300)\n")
    project.recipe("other/toy", body="import time\nprint('up', flush=True)\ntime.sleep(300)\n")
    return project


def submitted(run, *words):
    return run(*words, "--batch", "laptop").succeeds().out.strip()


def states(run):
    return {each["name"]: each["state"] for each in run("jobs", "list", "--json").json}


def test_all_that_go_on_are_cancelled_and_those_that_are_over_stay(sleeper, nemotron_process):
    store = JobStore(sleeper.state / "jobs")
    stored(store, record("a-1120-aaaaaaaa", FAILED, age=900, exit_code=3))
    first, second = submitted(nemotron_process, "toy"), submitted(nemotron_process, "other", "toy")
    nemotron_process("jobs", "cancel", "--all").refuses("this would cancel 2 jobs", "no terminal", "-y")
    assert nemotron_process("jobs", "cancel", "--all", "-y").succeeds().out.count(": cancelled,") == 2
    assert states(nemotron_process) == {first: "cancelled", second: "cancelled", "a-1120-aaaaaaaa": "failed"}
    assert nemotron_process("jobs", "cancel", "--all").succeeds().out == "No such job goes on.\n"


@pytest.mark.parametrize(
    "condition",
    [("--recipe", "toy"), ("--tag", "x"), ("--profile", "laptop", "--tag", "x"), ("--since", "1h", "--tag", "x")],
)
def test_only_those_that_meet_a_condition_are_ended(sleeper, nemotron_process, condition):
    meant = submitted(nemotron_process, "toy", "--tag", "x")
    other = submitted(nemotron_process, "other", "toy")
    try:
        nemotron_process("jobs", "stop", *condition, "-y").succeeds()
        now = states(nemotron_process)
        assert now[meant] == "cancelled"
        assert now[other] in ("planned", "starting", "running")
    finally:
        nemotron_process("jobs", "cancel", "--all", "-y")


def test_a_sweep_is_cancelled_with_all_of_its_jobs(sleeper, nemotron_process):
    group = submitted(nemotron_process, "toy", "-m", "value=1,2", "--tag", "x")
    until(lambda: len(states(nemotron_process)) > 1)
    nemotron_process("jobs", "cancel", "--tag", "x").refuses("and 1 sweep")
    nemotron_process("jobs", "cancel", "--tag", "x", "-y").succeeds()
    assert states(nemotron_process)[group] == "cancelled"
    assert set(states(nemotron_process).values()) == {"cancelled"}


@pytest.mark.parametrize(("answer", "code", "state"), [("y", 0, "cancelled"), ("", 1, "running"), ("n", 1, "running")])
def test_a_terminal_is_asked_with_jobs_and_gpus(sleeper, nemotron_process, answer, code, state):
    name = submitted(nemotron_process, "toy", "run.env.gpus_per_node=0")
    until(lambda: states(nemotron_process)[name] == "running")
    try:
        said, ended = in_terminal(sleeper, "jobs", "cancel", "--state", "running", keys=f"{answer}\n")
        assert f"cancel 1 job: {name}? [y/N]" in said
        assert ended == code
        assert states(nemotron_process)[name] == state
    finally:
        nemotron_process("jobs", "cancel", "--all", "-y")


@pytest.fixture
def ended(project):
    store = JobStore(project.state / "jobs")
    stored(store, record("a-1120-aaaaaaaa", ENDED, age=900, exit_code=0, tags=("x",)))
    stored(store, record("b-1120-bbbbbbbb", FAILED, age=800, exit_code=3, tags=("x",)))
    stored(store, record("c-1120-cccccccc", ENDED, age=700, exit_code=0))
    return store


def test_waiting_for_a_tag_counts_what_is_over_already(ended, nemotron):
    assert nemotron("jobs", "wait", "--tag", "x").code == 3
    assert nemotron("jobs", "wait", "--state", "succeeded").code == 0
    assert nemotron("jobs", "wait", "--all").code == 0


def test_the_status_of_a_tag_is_of_all_of_its_jobs(ended, nemotron):
    rows = nemotron("jobs", "status", "--tag", "x").succeeds().out.splitlines()
    assert [row.split()[0] for row in rows] == ["JOB", "b-1120-bbbbbbbb", "a-1120-aaaaaaaa"]


@pytest.mark.parametrize("verb", ["cancel", "stop", "wait", "retry"])
def test_names_or_conditions_and_not_both(ended, nemotron, verb):
    nemotron("jobs", verb).refuses("which jobs?", f"nemotron jobs {verb} JOB")
    nemotron("jobs", verb, "a-1120", "--tag", "x").refuses("by their names, or by conditions")
    nemotron("jobs", verb, "--state", "gone").refuses("there is no state 'gone'")


def test_those_that_failed_are_run_again(project, nemotron_process):
    project.recipe("toy", body="import sys\nsys.exit(3)\n")
    project.recipe("fine", body="print('ok')\n")
    names = [submitted(nemotron_process, *words) for words in (["toy"], ["toy"], ["fine"])]
    nemotron_process("jobs", "wait", *names)
    nemotron_process("jobs", "retry", "--all").refuses("this would retry 2 jobs", "-y")
    again = nemotron_process("jobs", "retry", "--recipe", "toy", "-y").succeeds().out.split()
    nemotron_process("jobs", "wait", *again)
    found = nemotron_process("jobs", "list", "--json").json
    repeated = {each["retry_of"] for each in found if each["name"] in again}
    assert repeated == set(names[:2])
