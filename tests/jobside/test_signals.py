"""Signals at random moments of jobs that really run: a few of what is run by hand (`storm.py`)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from job_scripts import environment, lay_out, plan_for
from jobside.storm import ScriptMoment, moment, plan_of, run
from waiting import until

from nemo_runspec.backends.local import processes
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.markers import read_markers

EACH = 20
"""Moments of one test."""
FIRSTS = range(1, 101, EACH)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["program", "line"])
@pytest.mark.parametrize("first", [*FIRSTS[:2], *(pytest.param(first, marks=pytest.mark.full) for first in FIRSTS[2:])])
def test_no_signal_is_lost_nor_told_twice_and_none_ends_a_job_falsely(tmp_path: Path, way: str, first: int):
    for seed in range(first, first + EACH):
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert run(moment(seed, way), folder) == []


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(1, 4), pytest.param(range(4, 9), marks=pytest.mark.full)], ids=["few", "more"])
def test_nor_under_torchrun(tmp_path: Path, torch_bin: Path, seeds: range):
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert run(moment(seed, "torchrun"), folder, str(torch_bin)) == []


def test_a_seed_gives_the_same_moment_again():
    assert moment(7) == moment(7) != moment(8)


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP"])
def test_a_stop_that_comes_before_the_first_line_is_in_the_record(tmp_path: Path, name: str):
    """The worker starts the script with them blocked, and a mask outlives exec.

    On a busy machine this process may send it late, when the command has begun: then it is tried again.
    """
    ended, phases = 128 + getattr(signal, f"SIG{name}"), []
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()
        plan = plan_for(folder, "")
        process = processes.start(plan.job_dir, ["bash", lay_out(plan).job_script], environment(), folder)
        process.send_signal(getattr(signal, f"SIG{name}"))
        process.communicate(timeout=120)
        (record,) = read_markers(Path(JobLayout(plan.job_dir).status))
        assert (record.received, record.exit_code, process.returncode) == (name, ended, ended)
        phases.append(record.phase)
        if record.phase != "command":
            return
    pytest.fail(f"never before the command had begun: {phases}")


def test_one_that_the_command_counts_is_told_to_it_though_it_came_before_the_first_line(tmp_path: Path):
    case = moment(1)
    plan = plan_of(case, tmp_path)
    process = processes.start(plan.job_dir, ["bash", lay_out(plan).job_script], environment(), tmp_path)
    process.send_signal(signal.SIGUSR1)
    counted = tmp_path / "counted"
    until(lambda: counted.exists() and "USR1" in counted.read_text().split(), "the count")
    (tmp_path / "go").touch()
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert counted.read_text().split() == ["begun", "USR1", "ended"]


PYTHON = """#!/bin/sh
case "$*" in {moment}) kill -{name} {target} ;; esac
exec {python} "$@"
"""
"""A python3 that tells a signal to the job script as it is asked for its version, or to itself as it becomes that."""

MOMENTS = pytest.mark.parametrize(
    ("moment", "target"), [("*version_info*", "$PPID"), ("*/supervisor.py*", "$$")], ids=["page", "start"]
)


def told_early(top: Path, name: str, moment: str, target: str, *, old_env: bool = False) -> tuple[int, list[str]]:
    """A job that nobody has started with signals blocked, as in a container: its exit status, what it has counted."""
    tools = top / "tools"
    tools.mkdir()
    texts = {"python3": PYTHON.format(moment=moment, name=name, target=target, python=sys.executable)}
    if old_env:
        texts["env"] = '#!/bin/sh\ncase $1 in --block*) exit 125 ;; esac\nexec /usr/bin/env "$@"\n'
    for tool, text in texts.items():
        (tools / tool).write_text(text)
        (tools / tool).chmod(0o755)
    plan = plan_of(moment_of(name), top)
    process = subprocess.Popen(
        ["bash", lay_out(plan).job_script], env=environment(PATH=f"{tools}:{os.environ['PATH']}"), cwd=top
    )
    seen = top / "counted"
    wanted = "begun" if old_env and target == "$$" else name
    until(lambda: process.poll() is not None or (seen.exists() and wanted in seen.read_text().split()), name)
    (top / "go").touch()
    process.wait(timeout=120)
    (record,) = read_markers(Path(JobLayout(plan.job_dir).status))
    assert record.exit_code == process.returncode
    return process.returncode, seen.read_text().split() if seen.exists() else []


def moment_of(name: str) -> ScriptMoment:
    return ScriptMoment(0, (name,), (0.0,), late=False)


@MOMENTS
@pytest.mark.parametrize("name", ["USR1", "TERM", "INT", "HUP"])
def test_what_comes_before_the_supervisor_is_its(tmp_path: Path, name: str, moment: str, target: str):
    code, seen = told_early(tmp_path, name, moment, target)
    if name == "USR1":
        assert (code, seen) == (0, ["begun", "USR1", "ended"])
    else:
        assert (code, seen) == (128 + getattr(signal, f"SIG{name}"), [])


@MOMENTS
def test_where_env_cannot_block_it_does_not_end_the_job(tmp_path: Path, moment: str, target: str):
    """coreutils before 8.31, BusyBox: while Python starts it is lost, before it is kept."""
    code, seen = told_early(tmp_path, "USR1", moment, target, old_env=True)
    assert (code, seen) == (0, ["begun", "ended"] if target == "$$" else ["begun", "USR1", "ended"])
