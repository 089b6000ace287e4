"""Whoever reads the output may go away, and the disk it goes to may be full: said in one line, and by the exit code."""

from __future__ import annotations

import subprocess
import sys

import pytest
from job_records import record, stored

from nemo_runspec.records import JobStore

COMMANDS = [
    ("--help",), ("list",), ("jobs", "list"), ("nano3", "pretrain", "--help"), ("env", "schema"), ("--version",),
    ("nano3", "pretrain", "-c", "tiny", "--dry-run"), ("nano3", "pretrain", "-c", "tiny", "--dry-run", "--json"),
    ("jobs", "logs", "a-job"),
]  # fmt: skip


@pytest.fixture
def log(project):
    made = record("a-job", ("planned", "starting", "running", "succeeded"), exit_code=0)
    stored(JobStore(project.state / "jobs"), made, log=b"a line\n" * 2_000_000)


def run(project, command, after):
    """The exit code of `nemotron COMMAND`, not of what follows it, and its error stream."""
    line = f'"$0" -m nemotron {" ".join(command)} {after}; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(
        ["bash", "-c", line, sys.executable],
        cwd=project.folder,
        env=project.environment(),
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_reader_that_never_reads(project, log, command):
    assert run(project, command, "| true") == (141, "")


def test_a_reader_that_has_seen_enough(project, log):
    assert run(project, ("jobs", "logs", "a-job"), "| head -1 > /dev/null") == (141, "")


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_disk_that_is_full(project, log, command):
    code, errors = run(project, command, "> /dev/full")
    assert code == 1
    assert errors == "error: No space left on device: standard output\n"


@pytest.mark.slow
def test_a_failure_is_told_by_the_exit_code_whoever_reads(project):
    store = JobStore(project.state / "jobs")
    stored(store, record("bad", ("planned", "starting", "running", "failed"), exit_code=7, cause="exit code 7"))
    for after in ("| true", "> /dev/full"):
        assert run(project, ("jobs", "wait", "bad", "--json"), after)[0] in (7, 141, 1)
        assert run(project, ("jobs", "show", "gone"), after)[0] == 2
