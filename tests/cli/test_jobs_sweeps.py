"""Sweeps among jobs, as `nemotron jobs list | show | wait | cancel | rm` show and treat them."""

from __future__ import annotations

import json
import math
import re
import subprocess
from datetime import datetime, timedelta, timezone

import pytest
from job_records import record, stored

from nemo_runspec.records import JobStore
from nemo_runspec.records.process import process_of, this_process
from nemo_runspec.sweeps.model import Member, Sweep
from nemo_runspec.sweeps.store import SweepStore

RUNNING = ("planned", "starting", "running")
NAME = "sweep-toy-train-long-1121-abcdefgh"
"""As long as a name may be."""


@pytest.fixture
def store(project):
    return JobStore(project.state / "jobs")


def ago(seconds):
    return (datetime.now(timezone.utc) - timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def strict(text):
    """JSON as readers that know no NaN take it."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def put(store, *states, name=NAME, age=1000, metrics=None, **values):
    """A sweep with one run for each state, None for one that was not started."""
    members = []
    for n, state in enumerate(states):
        job = f"{name}-run-{n}"
        was = "" if state == "running" or "ended" in values else state or ""
        members.append(Member(n, job, str(store.folder(job)), {"train.lr": f"1e-{n}", "rng.seed": "1"}, was=was))
        if state:
            code = {"succeeded": 0, "failed": 3, "cancelled": 143}.get(state)
            steps = RUNNING if state == "running" else (*RUNNING, state)
            made = record(job, steps, age=age - 1 - n, group=name, exit_code=code, launcher=this_process(),
                          metrics=metrics or {"loss": 1.0 + n})  # fmt: skip
            stored(store, made)
    given = {"ended": ago(1), "launcher": None, "profile": "my-cluster", "executor": "local", **values}
    sweep = Sweep(name, "toy/train", ago(age), members=tuple(members), **given)
    SweepStore(store.root.parent / "sweeps").write(sweep)
    return sweep


def going(store, *states, **values):
    return put(store, *states, ended=None, launcher=this_process(), **values)


def listed(outcome):
    return [line.split()[:2] for line in outcome.succeeds().out.splitlines()[1:]]


@pytest.mark.parametrize(
    ("states", "state", "code"),
    [(["succeeded", "cancelled"], "cancelled", 143), (["succeeded"], "succeeded", 0), (["failed", None], "failed", 3),
     (["cancelled", "failed", "succeeded"], "failed", 3)],
)  # fmt: skip
def test_one_state_for_all_who_ask(store, nemotron, states, state, code):
    put(store, *states)
    assert listed(nemotron("jobs", "list")) == [[NAME, state]]
    assert [job["state"] for job in strict(nemotron("jobs", "list", "--json").out) if job["kind"] == "sweep"] == [state]
    shown = strict(nemotron("jobs", "show", NAME, "--json").out)
    assert (shown["state"], shown["exit_code"]) == (state, code)
    waited = nemotron("jobs", "wait", NAME, "--json")
    assert (strict(waited.out)[0]["state"], waited.code) == (state, code)
    assert re.search(rf"{NAME}: {state}", nemotron("jobs", "wait", NAME).out)


def test_a_sweep_without_jobs_is_listed(store, nemotron):
    stored(store, record("older", (*RUNNING, "succeeded"), age=2000))
    going(store, None, None)
    assert listed(nemotron("jobs", "list")) == [[NAME, "planned"], ["older", "succeeded"]]
    assert "2 waiting" in nemotron("jobs", "list").out
    assert listed(nemotron("jobs", "list", "--state", "planned")) == [[NAME, "planned"]]
    assert listed(nemotron("jobs", "list", "--group", "last")) == [[NAME, "planned"]]
    assert nemotron("jobs", "list", "--recipe", "toy/train", "--json").json[0]["runs"] == {"waiting": 2}
    assert nemotron("jobs", "wait", "last", "--timeout", "0.2").code == 124
    nemotron("jobs", "rm", "last").refuses(f"sweep '{NAME}' is not over")
    nemotron("jobs", "logs", "last").refuses("has started no run", f"nemotron jobs show {NAME}")
    nemotron("jobs", "retry", "last").refuses("goes on: it is planned")


def test_cancel_last_is_the_sweep_just_submitted(store, nemotron):
    other = stored(store, record("older", RUNNING, age=2000, launcher=this_process()))
    process = subprocess.Popen(["sleep", "600"])
    put(store, None, ended=None, launcher=process_of(process.pid))
    nemotron("jobs", "cancel", "last").succeeds()
    assert process.wait(timeout=120) == -15
    assert not (store.folder(other.name) / "cancel.json").exists()


def test_runs_that_wait_and_runs_that_run(store, nemotron):
    going(store, "succeeded", "running", None)
    out = nemotron("jobs", "show", NAME).succeeds().out
    assert re.search(r"succeeded +.*\n.* running +\d+.*\n.* waiting\b", out)
    assert "not run" not in out
    assert f"{NAME}   toy/train, running" in out
    states = [run["state"] for run in nemotron("jobs", "show", "last", "--json").json["members"]]
    assert states == ["succeeded", "running", "waiting"]
    assert nemotron("jobs", "logs", "last").err.startswith(f"{NAME}-run-1: ")


def test_a_killed_one(store, nemotron):
    put(store, "succeeded", None, None, ended=None)
    assert nemotron("jobs", "wait", NAME).code == 1
    assert "its process was killed; 2 runs were not started" in nemotron("jobs", "list").out
    assert re.search(r"lost, exit code 1: its process was killed", nemotron("jobs", "show", NAME).out)
    assert "not run" in nemotron("jobs", "show", NAME).out


def test_json_has_no_numbers_that_are_none(store, nemotron):
    made = put(store, "succeeded", metrics={"loss": math.nan, "acc": math.inf, "f1": 0.5})
    job = made.members[0].name
    metrics = {"loss": "nan", "acc": "inf", "f1": 0.5}
    assert strict(nemotron("jobs", "show", NAME, "--json").out)["members"][0]["metrics"] == metrics
    assert strict(nemotron("jobs", "show", job, "--json").out)["metrics"] == metrics
    assert strict(nemotron("jobs", "list", "--json").out)[0]["metrics"] == metrics
    file = store.folder(job) / "record.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "elapsed": math.nan}))
    for words in (("list", "--json"), ("show", NAME, "--json"), ("wait", NAME, "--json")):
        strict(nemotron("jobs", *words).out)
    nemotron("jobs", "show", job, "--json").refuses("damaged")


def test_an_ambiguous_beginning(store, nemotron):
    put(store, "succeeded")
    put(store, "succeeded", name=f"{NAME[:-2]}xx")
    for verb in ("show", "wait", "cancel", "rm"):
        nemotron("jobs", verb, NAME[:-3]).refuses("is the beginning of", "jobs and sweeps", "give more of its name")
    put(store, name="sweep-demo-1", verdict="failed", exit_code=2, cause="no trials")
    put(store, name="sweep-demo-2", verdict="failed", exit_code=2, cause="no trials")
    nemotron("jobs", "show", "sweep-demo").refuses("'sweep-demo' is the beginning of 2 sweeps")
    assert nemotron("jobs", "wait", "sweep-demo-1").code == 2


def test_a_narrow_terminal_shows_how_a_sweep_is(store, nemotron, monkeypatch):
    put(store, "failed", "failed", "succeeded", "succeeded")
    monkeypatch.setenv("COLUMNS", "80")
    (row,) = nemotron("jobs", "list").succeeds().out.splitlines()[1:]
    assert row.endswith("2 failed, 2 succeeded")
    assert len(row) <= 80


def test_names_of_metrics_do_not_break_the_table(store, nemotron):
    put(store, "succeeded", "succeeded", metrics={"two\nlines\x1b[2J": 1.0, "l" * 300: 2.0})
    for words in (("show", NAME), ("list", "--group", NAME)):
        out = nemotron("jobs", *words).succeeds().out
        assert "\x1b" not in out
        assert len([line for line in out.splitlines() if "-run-" in line]) == 2
        assert "\nlines" not in out
    assert max(map(len, nemotron("jobs", "show", NAME).out.splitlines()[:4])) < 220


def test_sorted_by_what_is_the_same(store, nemotron):
    put(store, "succeeded", "succeeded")
    nemotron("jobs", "show", NAME, "--sort", "seed").refuses("'rng.seed' is 1 in all runs")


def test_rm_by_conditions_takes_the_sweep_with_its_last_job(store, nemotron):
    sweeps = SweepStore(store.root.parent / "sweeps")
    put(store, "failed", "succeeded")
    nemotron("jobs", "rm", "--state", "failed").succeeds()
    assert sweeps.names() == [NAME]
    assert listed(nemotron("jobs", "list")) == [[NAME, "failed"]]
    out = nemotron("jobs", "rm", "--recipe", "nano3,toy").succeeds()
    assert sweeps.names() == [NAME], out
    nemotron("jobs", "rm", "--group", NAME, "--dry-run").succeeds()
    assert nemotron("jobs", "rm", "--group", "last").succeeds().out.endswith("1 job and 1 sweep removed\n")
    assert (sweeps.names(), store.list()) == ([], [])


def test_one_that_cannot_be_read(store, nemotron):
    sweeps = SweepStore(store.root.parent / "sweeps")
    put(store, "succeeded")
    (sweeps.folder(NAME) / "sweep.json").write_text("{")
    assert listed(nemotron("jobs", "list")) == [[NAME, "unknown"]]
    nemotron("jobs", "show", NAME).refuses("cannot be read", "rm --force")
    nemotron("jobs", "wait", NAME).refuses("cannot be read")
    nemotron("jobs", "rm", NAME).refuses("cannot be read", "rm --force")
    nemotron("jobs", "rm", "--force", NAME).succeeds()
    assert sweeps.names() == []


@pytest.mark.parametrize("damage", ["", "[]", {"members": 3}, {"launcher": {"pid": "1"}}, {"options": {"metric": []}}])
def test_a_damaged_sweep_loses_no_job(store, nemotron, damage):
    """Each command says what is wrong, in one error; the jobs are listed, shown and removed as ever."""
    put(store, "succeeded", "failed")
    file = SweepStore(store.root.parent / "sweeps").folder(NAME) / "sweep.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **damage}) if isinstance(damage, dict) else damage)
    jobs = {entry.name for entry in store.entries()}
    for command in ("show", "wait", "cancel", "retry", "rm"):
        nemotron("jobs", command, NAME).refuses(f"sweep '{NAME}' cannot be read", "rm --force")
    assert listed(nemotron("jobs", "list")) == [[NAME, "unknown"]]
    assert {name for name, _ in listed(nemotron("jobs", "list", "--group", NAME))} == jobs
    for name in jobs:
        nemotron("jobs", "show", name).succeeds()
    assert {entry.name for entry in store.entries()} == jobs
    assert nemotron("jobs", "rm", *jobs).succeeds().out.endswith("2 jobs removed\n")


def test_the_newest_lines_and_how_many_more(store, nemotron):
    for n in range(30):
        put(store, "succeeded", name=f"sweep-{n:02}", age=1000 - 10 * n)
    outcome = nemotron("jobs", "list").succeeds()
    assert [name for name, _ in listed(outcome)] == [f"sweep-{n:02}" for n in range(29, 4, -1)]
    assert outcome.err == "5 more of 30 jobs: --limit N or --all\n"


def test_completion_offers_sweeps(store):
    from nemotron.cli.click import Context, TyperCommand
    from nemotron.cli.commands.jobs import complete

    going(store, None)
    shown = Context(TyperCommand("show"), info_name="show")
    assert [item.value for item in complete.jobs_and_groups(shown, None, "sweep")] == [NAME]
    assert complete.jobs(shown, None, "sweep") == []
