"""A running job's step, loss and time left in list, show and status; `jobs status --watch`."""

from __future__ import annotations

import json
import re

import pytest
from support import HEADER, start
from terminals import in_terminal
from waiting import line_of, open_gate, until

from nemo_runspec.records import JobStore

BODY = """\
import json, os, sys, time
with open(os.environ["NEMOTRON_METRICS_FILE"], "a") as metrics:
    for step in (1, 30):
        metrics.write(json.dumps({"step": step, "loss": 30 / step}) + "\\n")
folder = os.environ["NEMOTRON_JOB_DIR"]
while not os.path.exists(folder + "/go"):
    time.sleep(0.05)
sys.exit(5)
"""


def has_written(project, name):
    file = project.state / "jobs" / name / "metrics.jsonl"
    until(lambda: file.is_file() and file.read_text().count("\n") == 2, "its metrics")
    store = JobStore(project.state / "jobs")  # that it runs may be written down later than its first line
    until(lambda: store.by_name(name).state, name, lambda state: state == "running")


@pytest.fixture
def job(project, nemotron_process):
    """A job that has done 30 of 200 steps, and ends with 5 once its folder has a file `go`."""
    project.recipe("toy", body=BODY, default="train:\n  train_iters: 200\n")
    name = nemotron_process("toy", "--batch", "laptop").succeeds().out.strip()
    has_written(project, name)
    yield name
    open_gate(project.state / "jobs" / name)
    nemotron_process("jobs", "wait", name)


@pytest.mark.parametrize("verb", ["list", "show", "status"])
def test_it_is_shown_wherever_a_job_is(job, nemotron_process, verb):
    words = ("jobs", verb, *([job] if verb != "list" else []))
    told = nemotron_process(*words, COLUMNS="160").succeeds().out
    assert re.search(r"15 %, ~\d+ (s|min).* left, loss 1, step 30/200", told), told
    cut = nemotron_process(*words, COLUMNS="80").succeeds().out
    assert re.search(r"15 %, ~\d+ (s|min)", cut), "the end may be cut, what matters more is not"
    found = nemotron_process(*words, "--json").succeeds().json
    progress = (found if verb == "show" else found[0])["progress"]
    assert (progress["step"], progress["total"], progress["loss"]) == (30, 200, 1)
    assert progress["eta_seconds"] >= 0


def test_what_nobody_says_stays_blank(project, nemotron_process):
    project.write("train.py", HEADER + BODY.replace('"step": step, ', ""))
    name = nemotron_process("run", "./train.py", "--batch", "laptop").succeeds().out.strip()
    has_written(project, name)
    told = nemotron_process("jobs", "status", name).out
    open_gate(project.state / "jobs" / name)
    assert "loss 1" in told
    assert "step" not in told and "left" not in told
    nemotron_process("jobs", "wait", name)
    assert "progress" not in nemotron_process("jobs", "show", name, "--json").json


@pytest.mark.parametrize("words", [(), ("last",), ("--recipe", "toy")])
def test_a_watch_through_a_pipe_is_a_line_per_change(project, job, words):
    watching = start(project, "jobs", "status", "--watch", *words)
    assert f"{job}: running" in line_of(watching.stdout)
    open_gate(project.state / "jobs" / job)
    rest, _ = watching.communicate(timeout=120)
    assert f"{job}: failed, exit code 5" in rest
    assert rest.count("\n") == 1
    assert watching.returncode == 5


def test_a_watch_in_json(project, job):
    watching = start(project, "jobs", "status", "--watch", "--json", job)
    first = json.loads(line_of(watching.stdout))
    open_gate(project.state / "jobs" / job)
    last = json.loads(watching.communicate(timeout=120)[0])
    assert (first["state"], first["progress"]["step"], last["state"]) == ("running", 30, "failed")


@pytest.mark.parametrize("columns", ["80", "120"])
def test_a_watch_on_a_terminal_renews_itself(project, job, columns):
    def end_it(shown):
        if "running" in shown:
            open_gate(project.state / "jobs" / job)

    terminal = {"COLUMNS": columns, "LINES": "24", "TERM": "xterm"}
    shown, code = in_terminal(project, "jobs", "status", "--watch", job, look=end_it, **terminal)
    assert code == 5
    assert shown.count("JOB") > 1, "drawn again"
    assert "\x1b[J" in shown
    drawn = shown.replace("\r", "").split("\x1b[J")[-1]
    assert "failed 5" in drawn and "all are over" in drawn


def test_a_watch_of_nothing_says_so(nemotron):
    watched = nemotron("jobs", "status", "--watch").succeeds()
    assert (watched.out, watched.err) == ("", "No job is under way.\n")
