"""`jobs ray`: what it shows of reports that Ray 2.60 has filled in, and what it says where there is none."""

from __future__ import annotations

import json
import shutil
import time
from typing import Any

import pytest
from job_records import record, stored
from ray_dashboard import REPORTS
from support import HEADER

from nemo_runspec.records import JobStore
from nemo_runspec.records.process import this_process

RUNNING = ("planned", "running")
OVER = ("planned", "running", "succeeded")


@pytest.fixture
def job(project, nemotron):
    """Makes a job of a Ray recipe in a state, with a report of so many seconds ago."""
    project.recipe("toy", header=HEADER.replace('launch = "direct"', 'launch = "ray"'))
    nemotron("toy", "--run", "laptop", "--dry-run", "--out", "plan.json").succeeds()
    plan = json.loads((project.folder / "plan.json").read_text())
    plan["resources"]["nodes"] = 2

    def make(states: tuple[str, ...] = RUNNING, report: str = "", *, age: float = 3, **news: Any) -> str:
        store = JobStore(project.state / "jobs")
        name = stored(store, record("toy-1123-0123abcd", states, launcher=this_process())).name
        store.folder(name).joinpath("plan.json").write_text(json.dumps(plan))
        if report:
            found = json.loads((REPORTS / f"{report}.json").read_text())
            now = time.time()
            news = {key: value(now) if callable(value) else value for key, value in news.items()}
            found.update({"at": now - age, **news})
            store.folder(name).joinpath("ray.json").write_text(json.dumps(found))
        return name

    return make


def test_nodes_and_what_runs_where_fit_a_terminal(job, nemotron, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    told = nemotron("jobs", "ray", job(report="running")).succeeds().out
    assert told == (REPORTS / "running.txt").read_text()
    assert max(map(len, told.splitlines())) <= 80


def test_as_json(job, nemotron):
    found = nemotron("jobs", "ray", job(report="running"), "--json").succeeds().json
    assert list(found) == [
        "name", "state", "over", "phase", "nodes_wanted", "nodes_alive", "at", "age_seconds", "ended", "unknown",
        "ray", "python", "address", "dashboard_port", "nodes", "work", "left_out", "untold",
    ]  # fmt: skip
    assert (found["phase"], found["nodes_wanted"], found["nodes_alive"], found["unknown"]) == ("running", 2, 2, "")
    head, second = found["nodes"]
    assert (head["name"], head["state"], head["total"]["CPU"], head["used"]["CPU"]) == ("node-0", "alive", 2, 2)
    assert second["total"]["worker_units"] == 8
    assert {"kind": "task", "name": "Policy.go", "node": "node-0", "state": "running", "count": 1} in found["work"]
    assert found["dashboard_port"] == 18265


def test_a_lost_node_is_told_with_why_and_what_it_has_is_not_known(job, nemotron):
    name = job(report="lost")
    told = nemotron("jobs", "ray", name).succeeds().out
    assert "1 of 2 nodes" in told
    assert "node-1 was lost: health check failed due to missing too many heartbeats" in told
    [_, lost] = nemotron("jobs", "ray", name, "--json").succeeds().json["nodes"]
    assert (lost["state"], lost["used"]) == ("lost", None)


@pytest.mark.parametrize(
    ("news", "said"),
    [
        ({"age": 200}, ": node 0 has told nothing since"),
        ({"unknown_since": lambda now: now - 90, "problem": "RpcError: gone"}, "does not answer (RpcError: gone)"),
    ],
)
def test_what_is_not_known_now_is_called_so(job, nemotron, news, said):
    name = job(report="running", **news)
    told = nemotron("jobs", "ray", name).succeeds().out
    assert "unknown since " in told and said in told and "tokenize" in told
    assert said in nemotron("jobs", "ray", name, "--json").json["unknown"]


def test_nodes_that_have_not_joined_are_named(job, nemotron):
    name = job(report="running", phase="starting", nodes=[], work=[], age=300)
    told = nemotron("jobs", "ray", name).succeeds().out
    assert "0 of 2 nodes, starting for 5 min" in told and "--dashboard" not in told
    assert [line.split() for line in told.splitlines()[3:5]] == [[f"node-{n}", "not", "joined"] for n in (0, 1)]
    nemotron("jobs", "ray", name, "--dashboard").refuses("has not started yet")


def test_one_that_waits_or_has_just_begun_or_ended_early(job, nemotron):
    assert "its Ray starts with the job: 0 of 2 nodes joined" in nemotron("jobs", "ray", job(("planned",))).out
    name = job()
    assert "its Ray has not started yet: 0 of 2 nodes joined" in nemotron("jobs", "ray", name).succeeds().out
    assert nemotron("jobs", "ray", name, "--json").json["nodes"] == []
    told = nemotron("jobs", "ray", job(("planned", "running", "failed"))).succeeds().out
    assert f"it ended before its Ray had started; why: nemotron jobs diagnose {name}" in told


def test_one_that_is_over_shows_what_was_last_seen(job, nemotron):
    name = job(OVER, "running", phase="ended", ended=lambda now: now)
    told = nemotron("jobs", "ray", name).succeeds().out
    assert "as it was 3 s before its end" in told and "--dashboard" not in told
    found = nemotron("jobs", "ray", name, "--json").json
    assert (found["phase"], found["over"], found["unknown"]) == ("ended", True, "")
    assert "as it was last seen 3 s ago" in nemotron("jobs", "ray", job(OVER, "running")).out
    nemotron("jobs", "ray", name, "--dashboard").refuses("is succeeded, and a dashboard needs a running job")


def test_a_job_of_this_machine_says_where_its_dashboard_and_token_are(job, nemotron):
    name = job(report="running")
    outcome = nemotron("jobs", "ray", name, "--dashboard").succeeds()
    assert outcome.out == "http://127.0.0.1:18265\n"
    assert "token, that lies in /tmp/nemotron-ray-0123abcd/token" in outcome.err
    found = nemotron("jobs", "ray", name, "--dashboard", "--json").succeeds().json
    assert found == {
        "name": name, "url": "http://127.0.0.1:18265", "token_file": "/tmp/nemotron-ray-0123abcd/token",
    }  # fmt: skip
    nemotron("jobs", "ray", job(report="running", dashboard=None), "--dashboard").refuses(
        "has no dashboard", "run.env.ray_dashboard_port=8265"
    )


def test_what_is_no_report_is_none(job, project, nemotron):
    name = job(report="running")
    for text in ("", "{", "[]", '{"phase": 3}', "[" * 100_000):
        (project.state / "jobs" / name / "ray.json").write_text(text)
        assert "its Ray has not started yet" in nemotron("jobs", "ray", name).succeeds().out


def test_other_jobs_are_refused(project, nemotron):
    project.recipe("toy")
    nemotron("toy", "--run", "laptop", "--dry-run", "--out", "plan.json").succeeds()
    store = JobStore(project.state / "jobs")
    stored(store, record("toy-1123-0123abcd", OVER))
    shutil.copy(project.folder / "plan.json", store.folder("toy-1123-0123abcd") / "plan.json")
    nemotron("jobs", "ray", "last").refuses("is no Ray job: its launch is direct", 'launch = "ray"')
