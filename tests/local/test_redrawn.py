"""A line that a job draws again and again: in its place on a terminal, once in the log; and prompts."""

from __future__ import annotations

import pytest
from support import Project
from terminals import in_terminal

from nemo_runspec.records import JobStore

pytestmark = pytest.mark.slow

BAR = """\
import sys, time
print("begun", flush=True)
for percent in range(0, 101, 5):
    sys.stderr.write(f"\\r{percent:3}%|{'#' * percent:100}|")
    sys.stderr.flush()
    time.sleep(0.1)
sys.stderr.write("\\n")
print("done")
"""
LAST = f"100%|{'#' * 100}|"
CLEAR = "\r\x1b[K"


def log_of(project: Project) -> list[str]:
    [job] = JobStore(project.state / "jobs").list()
    assert not (project.state / "jobs" / job.name / "logs" / "drawn").exists()
    return (project.state / "jobs" / job.name / "logs" / "job.log").read_bytes().decode().split("\n")


def test_on_a_terminal_it_stays_in_its_place(project: Project) -> None:
    project.write("train.py", BAR)
    said, code = in_terminal(project, "run", "./train.py", TERM="xterm")
    assert code == 0, said
    drawn = [part for part in said.split(CLEAR) if "%|" in part and "\r\n" not in part]
    assert len({part.split("%")[0] for part in drawn}) > 3, said
    assert all(len(part) < 80 for part in drawn)
    assert said.count("%|") == len(drawn) + 2, "the first below `begun`, the last one whole"
    assert said.count(f"{CLEAR}{LAST}\r\n") == 1
    assert log_of(project) == ["begun", LAST, "done", ""]


def test_in_a_pipe_and_in_the_log_it_is_one_line(project: Project, nemotron_process) -> None:
    project.write("train.py", BAR)
    ended = nemotron_process("run", "./train.py").succeeds()
    assert ended.out.split("\n") == ["begun", LAST, "done", ""]
    assert "\r" not in ended.err
    assert log_of(project) == ["begun", LAST, "done", ""]
    assert nemotron_process("jobs", "logs", "train").succeeds().out.split("\n") == ["begun", LAST, "done", ""]


def test_a_detached_jobs_bar_is_followed_in_its_place(project: Project, nemotron_process) -> None:
    project.write("train.py", BAR.replace("0.1", "0.3"))
    nemotron_process("run", "./train.py", "--batch", "local").succeeds()
    said, code = in_terminal(project, "jobs", "logs", "-f", "train", TERM="xterm")
    assert code == 0, said
    assert len({part.split("%")[0] for part in said.split(CLEAR) if "%|" in part and "\r\n" not in part}) > 3, said
    assert said.count(f"{LAST}\r\n") == 1
    assert log_of(project) == ["begun", LAST, "done", ""]


def test_a_line_without_an_end_is_seen(project: Project) -> None:
    project.write("train.py", "import time\nprint('name? ', end='', flush=True)\ntime.sleep(1)\nprint('nobody')\n")
    seen: list[str] = []
    said, code = in_terminal(project, "run", "./train.py", look=seen.append, TERM="xterm")
    assert code == 0, said
    assert any(part.endswith("name? ") for part in seen), said
    assert said.count("name? nobody\r\n") == 1
    assert log_of(project) == ["name? nobody", ""]


def test_a_bar_above_the_one_of_the_metrics(project: Project) -> None:
    project.write("train.py", METRICS)
    said, code = in_terminal(project, "run", "./train.py", TERM="xterm")
    assert code == 0, said
    assert "step" in said
    assert "loading 39 of 40" in said
    assert log_of(project) == ["begun", "loading 30 of 40", "a line", "loading 39 of 40", "done", ""]


METRICS = """\
import json, os, sys, time
print("begun", flush=True)
metrics = open(os.environ["NEMOTRON_METRICS_FILE"], "a", buffering=1)
for step in range(40):
    sys.stderr.write(f"\\rloading {step} of 40")
    sys.stderr.flush()
    time.sleep(0.05)
    if step > 15:
        print(json.dumps({"step": step, "total_steps": 40, "loss": 0.5}), file=metrics)
    if step == 30:
        sys.stderr.write("\\n")
        print("a line", flush=True)
sys.stderr.write("\\n")
print("done")
"""
