"""`on_end`: a command of the profile's, run once on this side when it is learnt that a job has ended."""

from __future__ import annotations

import json
import os
import signal

import pytest
from support import HEADER
from waiting import open_gate, until

NOTES = 'echo "$NEMOTRON_JOB $NEMOTRON_STATE [$NEMOTRON_EXIT_CODE] $NEMOTRON_PROFILE $NEMOTRON_TAGS" >> {log}'
PROFILE = "\n[told]\non_end = {command}\n"


@pytest.fixture
def told(project):
    """A project whose profile `told` notes every end in a file; the lines of that."""
    log = project.folder / "ends.log"
    project.write("env.toml", project.env_file.read_text() + PROFILE.format(command=json.dumps(NOTES.format(log=log))))
    project.recipe("toy", body="import sys\nsys.exit(3)\n")
    project.recipe("fine", body="print('ok')\n")
    project.recipe("long", body="import time\ntime.sleep(300)\n")
    return lambda: log.read_text().splitlines() if log.exists() else []


def set_command(project, command):
    project.write(
        "env.toml", project.env_file.read_text().split("[told]")[0] + PROFILE.format(command=json.dumps(command))
    )


@pytest.mark.parametrize("how", ["--run", "--batch"])
def test_once_attached_or_not(told, project, nemotron_process, how):
    nemotron_process("toy", how, "told", "--tag", "x")
    name = nemotron_process("jobs", "list", "--json").json[0]["name"]
    nemotron_process("jobs", "wait", name)
    assert until(told) == [f"{name} failed [3] told x"]
    for verb in ("status", "show", "list", "wait"):
        nemotron_process("jobs", verb, *([name] if verb != "list" else []))
    assert len(told()) == 1


def test_a_job_that_is_cancelled_and_each_run_of_a_sweep(told, nemotron_process):
    name = nemotron_process("long", "--batch", "told").out.strip()
    until(lambda: nemotron_process("jobs", "show", name, "--json").json["state"] == "running")
    nemotron_process("jobs", "cancel", name).succeeds()
    assert until(told) == [f"{name} cancelled [143] told "]
    nemotron_process("fine", "-m", "value=1,2", "--run", "told").succeeds()
    assert [line.split()[1:3] for line in told()[1:]] == [["succeeded", "[0]"]] * 2


def test_whoever_finds_a_dead_supervisors_job_ended_runs_it(told, project, nemotron_process):
    """The job's own processes end with its supervisor: it left an exit marker, or is lost, which is no end."""
    project.recipe("waits", body=WAITS)
    name = nemotron_process("waits", "--batch", "told").out.strip()
    record = until(lambda: shown(nemotron_process, name), good=lambda seen: seen["state"] == "running")
    open_gate(project.state / "jobs" / name)
    os.kill(record["launcher"]["pid"], signal.SIGKILL)
    state = nemotron_process("jobs", "wait", name)
    ends = told()
    assert len(ends) == (0 if shown(nemotron_process, name)["state"] == "lost" else 1), state
    nemotron_process("jobs", "status", name)
    assert told() == ends


WAITS = """\
import os, time
while not os.path.exists(os.environ["NEMOTRON_JOB_DIR"] + "/go"):
    time.sleep(0.05)
"""


def shown(run, name):
    return run("jobs", "show", name, "--json").succeeds().json


@pytest.mark.parametrize(
    ("command", "said"),
    [("echo why it failed; exit 4", "ended with exit code 4"), ("not-a-command-at-all", "ended with exit code 127")],
)
def test_its_failure_is_told_and_changes_nothing(told, project, nemotron_process, command, said):
    set_command(project, command)
    outcome = nemotron_process("fine", "--run", "told").succeeds()
    assert f"on_end {said}" in outcome.err
    page = nemotron_process("jobs", "show", "last").succeeds().out
    assert "succeeded" in page.splitlines()[0]
    assert "on_end" in page and said in page
    log = project.state / "jobs" / shown(nemotron_process, "last")["name"] / "on_end.log"
    assert log.read_text().strip()


def test_it_is_shown_in_the_plan_and_is_nothing_that_is_sent(told, nemotron):
    page = nemotron("fine", "--run", "told", "-d").succeeds().out
    assert "run.env.on_end" in page
    assert "ends.log" not in nemotron("fine", "--run", "told", "-d", "--script").succeeds().out


def test_a_script_and_a_retry_too(told, project, nemotron_process):
    project.write("train.py", HEADER + "print('ok')\n")
    nemotron_process("run", "./train.py", "--run", "told").succeeds()
    nemotron_process("jobs", "retry", "last").succeeds()
    assert len(told()) == 2
