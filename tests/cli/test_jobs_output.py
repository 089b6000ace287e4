"""`jobs list|status|show -o …`, `--sort`, `cost` and `compare`: the same jobs in every form."""

from __future__ import annotations

import csv
import io
import re

import pytest
import yaml
from job_records import record, stored

from nemo_runspec.planning.gpu_time import PLAN, run_seconds
from nemo_runspec.records import JobStore

SLURM = ("nano3", "pretrain", "-c", "tiny", "--batch", "my-cluster", "--dry-run")


@pytest.fixture
def store(project):
    return JobStore(project.state / "jobs")


@pytest.fixture
def jobs(store, nemotron, tmp_path):
    """Three jobs of two profiles, each with a plan: an hour of 32 GPUs, one of 16, and a job without any."""

    def add(name, states, plan_words, **values):
        stored(store, record(name, ("planned", "starting", "running", *states), **values))
        nemotron(*plan_words, "--out", str(tmp_path / "plan.json")).succeeds()
        (store.folder(name) / PLAN).write_bytes((tmp_path / "plan.json").read_bytes())

    far = {"executor": "slurm", "profile": "my-cluster", "handle": {"host": "h", "id": "7"}}
    good = {"age": 9000, "elapsed": 3600.0, "exit_code": 0, "metrics": {"loss": 2.5}}
    add("a-good-1120-aaaaaaaa", ["succeeded"], SLURM, **good, **far)
    changed = (*SLURM, "optimizer.lr=0.1", "run.env.nodes=2")
    add("b-bad-1120-bbbbbbbb", [("failed", "why")], changed, age=8000, elapsed=3500.0, exit_code=3, **far)
    here = ("nano3", "pretrain", "-c", "tiny", "--dry-run")
    add("c-here-1120-cccccccc", ["succeeded"], here, age=700, elapsed=30.0, exit_code=0, metrics={"loss": 1.5})
    return store


def of_csv(text):
    return list(csv.DictReader(io.StringIO(text)))


def names(outcome):
    return [line.split()[0] for line in outcome.succeeds().out.splitlines()[1:]]


def test_wide_has_every_column_and_cuts_nothing(jobs, nemotron, monkeypatch):
    out = nemotron("jobs", "list", "-o", "wide").succeeds().out
    head, _, failed, good = out.splitlines()
    assert head.split()[-3:] == ["GPUS", "GPU-HOURS", "REMARK"]
    assert re.search(r"my-cluster +7 +32 +32\.0$", good)
    assert re.search(r"my-cluster +7 +16 +15\.6 +why$", failed)
    monkeypatch.setenv("COLUMNS", "60")
    narrow = nemotron("jobs", "list", "-o", "wide").succeeds().out
    assert max(map(len, narrow.splitlines())) <= 60
    assert set(out.split()) <= set(narrow.split())


def test_csv_and_yaml(jobs, nemotron):
    rows = of_csv(nemotron("jobs", "list", "-o", "csv").succeeds().out)
    assert [row["name"][0] for row in rows] == ["c", "b", "a"]
    assert (rows[2]["gpu_hours"], rows[2]["metrics.loss"], rows[1]["exit_code"]) == ("32.0", "2.5", "3")
    as_json = nemotron("jobs", "list", "--json").succeeds().json
    assert as_json == nemotron("jobs", "list", "-o", "json").json
    assert as_json == yaml.safe_load(nemotron("jobs", "list", "-o", "yaml").succeeds().out)


def test_show_in_every_form(jobs, nemotron):
    words = ("jobs", "show", "a-good-1120-aaaaaaaa")
    assert nemotron(*words, "--json").json == yaml.safe_load(nemotron(*words, "-o", "yaml").out)
    [row] = of_csv(nemotron(*words, "-o", "csv").succeeds().out)
    assert row["name"] == words[-1]
    assert "GPU-HOURS" in nemotron(*words, "-o", "wide").succeeds().out


def test_status_of_jobs_that_are_over(jobs, nemotron):
    found = nemotron("jobs", "status", "c-here", "b-bad", "--sort", "name", "-o", "csv").out
    assert [row["name"][0] for row in of_csv(found)] == ["b", "c"]
    assert nemotron("jobs", "status", "-o", "wide").succeeds().out == "No job is under way.\n"


@pytest.mark.parametrize(
    ("key", "order"),
    [
        ("started", "cba"), ("-started", "abc"), ("name", "abc"), ("-name", "cba"), ("loss", "cab"), ("-loss", "acb"),
        ("time", "abc"), ("-time", "cba"), ("gpu-hours", "abc"), ("state", "bca"), ("where", "cba"),
    ],
)  # fmt: skip
def test_sorted(jobs, nemotron, key, order):
    """What is largest first, a metric's smallest, jobs without it at the end; those that are alike the newest first."""
    assert "".join(name[0] for name in names(nemotron("jobs", "list", "--sort", key))) == order


def test_the_cost(jobs, nemotron):
    out = nemotron("jobs", "cost", "--by", "profile").succeeds().out
    assert re.search(r"^my-cluster +2 +1\.97 +47\.6 +15\.6$", out, re.MULTILINE), out
    assert re.search(r"^all +3 +1\.98 +47\.6 +15\.6$", out, re.MULTILINE), out
    [row] = nemotron("jobs", "cost", "--json", "--state", "failed").json
    assert (row["recipe"], row["jobs"], round(row["gpu_hours"], 1)) == ("nano3/pretrain", 1, 15.6)
    weeks = nemotron("jobs", "cost", "--by", "week", "-o", "json").json
    assert all(re.fullmatch(r"\d{4}-W\d\d", row["week"]) for row in weeks)
    assert "jobs" in of_csv(nemotron("jobs", "cost", "-o", "csv").succeeds().out)[0]


def test_a_job_without_a_plan_is_counted_by_its_hours_alone(store, nemotron):
    stored(store, record("a-old-1120-aaaaaaaa", ("planned", "starting", "running", "succeeded"), elapsed=7200.0))
    outcome = nemotron("jobs", "cost").succeeds()
    assert re.search(r"^nano3/pretrain +1 +2\.00 +0\.00 +0\.00$", outcome.out, re.MULTILINE)
    assert "the GPUs of 1 job are not known" in outcome.err


def test_earlier_attempts_count():
    states = ("planned", "running", "queued", "running", "unknown", "running", "succeeded")
    assert run_seconds(record("a-1120-aaaaaaaa", states, elapsed=1.5)) == pytest.approx(4)
    assert run_seconds(record("a-1120-aaaaaaaa", ("planned", "queued"))) == 0
    assert run_seconds(record("a-1120-aaaaaaaa", ("planned", "running"), age=100)) > 90


def test_compared(jobs, nemotron):
    out = nemotron("jobs", "compare", "a-good", "b-bad").succeeds().out
    lines = {line.split("  ")[0]: line.split() for line in out.splitlines()}
    assert lines["state"][1:] == ["succeeded", "failed"]
    assert lines["loss"][1:] == ["2.5"]
    assert lines["optimizer.lr"][1:] == ["0.01", "0.1"]
    assert lines["run.env.nodes"][1:] == ["4", "2"]
    assert not [key for key in lines if "dir" in key or "digest" in key]
    rows = of_csv(nemotron("jobs", "compare", "a-good", "b-bad", "-o", "csv").succeeds().out)
    assert [(row["optimizer.lr"], row["exit_code"]) for row in rows] == [("0.01", "0"), ("0.1", "3")]
    assert nemotron("jobs", "compare", "a-good", "b-bad", "--json").json[0]["gpu_hours"] == 32.0


def test_compared_on_a_narrow_terminal(jobs, nemotron, monkeypatch):
    monkeypatch.setenv("COLUMNS", "62")
    lines = nemotron("jobs", "compare", "a-good", "b-bad", "c-here").succeeds().out.splitlines()
    assert lines[0].split() == ["aaaaaaaa", "bbbbbbbb", "cccccccc"]
    assert max(map(len, lines)) <= 62


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("list", "-o", "yml"), ["there is no form 'yml'", "did you mean 'yaml'?"]),
        (("list", "--json", "-o", "csv"), ["--json and -o csv exclude each other"]),
        (("list", "--sort", "los"), ["no job has 'los'", "did you mean 'loss'?"]),
        (("cost", "--by", "recip"), ["jobs are not counted by 'recip'", "did you mean 'recipe'?"]),
        (("compare", "a-good"), ["one job has nothing to be compared with"]),
        (("compare",), ["JOBS is missing"]),
    ],
)
def test_refused(jobs, nemotron, words, expected):
    nemotron("jobs", *words).refuses(*expected)
