"""`jobs pull` and `jobs forward` for jobs of this machine, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest
from waiting import until


@pytest.fixture
def job(project, nemotron_process):
    """A job that has left a folder and a file in its directory."""
    body = (
        "import os, pathlib\n"
        "top = pathlib.Path(os.environ['NEMOTRON_JOB_DIR'])\n"
        "(top / 'results').mkdir()\n"
        "(top / 'results/a.txt').write_text('A' * 1000)\n"
        "(top / 'results/b.txt').write_text('B')\n"
        "print('told')\n"
    )
    project.recipe("toy", body=body)
    nemotron_process("toy", "--run", "laptop").succeeds()
    return nemotron_process("jobs", "list", "--json").json[0]["name"]


def test_a_path_of_its_directory(project, job, nemotron_process):
    outcome = nemotron_process("jobs", "pull", job, "results").succeeds()
    folder = Path(outcome.out.strip())
    assert folder == project.folder / job / "results"
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt", "b.txt"]
    assert "results: 2 files, 1.0 kB" in outcome.err
    again = nemotron_process("jobs", "pull", "last", "results").succeeds()
    assert "1.0 kB of it here before" in again.err
    one = nemotron_process("jobs", "pull", job, "results/a.txt", "--to", "elsewhere").succeeds()
    assert (project.folder / "elsewhere" / "a.txt").read_text() == "A" * 1000, one.out


def test_logs_and_a_look_before(project, job, nemotron_process):
    told = nemotron_process("jobs", "pull", job, "logs", "--dry-run").succeeds().out
    assert told.startswith("logs: ") and "from " in told
    assert not (project.folder / job).exists()
    nemotron_process("jobs", "pull", job, "logs", "--to", "l").succeeds()
    assert "told" in (project.folder / "l" / "logs" / "logs" / "job.log").read_text()
    [found] = nemotron_process("jobs", "pull", job, "results", "--dry-run", "--json").succeeds().json
    assert (found["files"], found["bytes"]) == (2, 1001)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), ["has no outputs: none is on record", "(results/, ", " results/\n"]),
        (("checkpoints",), ["has no checkpoints"]),
        (("outpust",), ["has no output 'outpust'", "outputs"]),
        (("gone/here",), ["there is no ", "gone/here", "there are: results/, "]),
        (("results/c.txt",), ["there is no ", "/results there are: b.txt, a.txt\n"]),
        (("/no/such/place",), ["there is no /no/such/place", "there are: results/, "]),
    ],
)
def test_what_is_not_there(job, nemotron_process, words, said):
    nemotron_process("jobs", "pull", job, *words).refuses(*said)


def test_a_job_that_is_over_has_no_port(job, nemotron_process):
    nemotron_process("jobs", "forward", job, "8265").refuses("is succeeded, and a port needs a running job")
    nemotron_process("jobs", "forward", job, "http").refuses("'http' is no port", "9000:8265")
    nemotron_process("jobs", "forward", job, "0").refuses("is no port")


def test_a_running_job_of_this_machine_says_where_it_listens(project, nemotron_process):
    project.recipe("long", body="import time\ntime.sleep(300)\n")
    name = nemotron_process("long", "--batch", "laptop").out.strip()
    until(lambda: nemotron_process("jobs", "show", name, "--json").json["state"] == "running")
    try:
        assert nemotron_process("jobs", "forward", name, "8265").succeeds().out == "http://127.0.0.1:8265\n"
        nemotron_process("jobs", "forward", name, "9000:8265").refuses("runs on this machine", "use 8265")
    finally:
        nemotron_process("jobs", "cancel", name).succeeds()
