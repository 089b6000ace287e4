"""A job script where there is no Python: what it still does, and what ends it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from job_scripts import lay_out, plan_for
from waiting import line_of, until

from nemo_runspec.backends.slurm.render import slurm_programs
from nemo_runspec.plans.model import Plan
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.markers import NodeMarker, cause, deciding_marker, read_markers

MOST = 60
TOOLS = "bash cat chown date env grep kill ln mkdir mv rm sleep sh true"


@pytest.fixture
def tools(tmp_path) -> Path:
    """A folder of programs without any Python."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in TOOLS.split():
        found = next(path for place in ("/usr/bin", "/bin") if (path := Path(place, name)).exists())
        (folder / name).symlink_to(found)
    return folder


def start(plan: Plan, tools: Path, top: Path, **extra: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", lay_out(plan).job_script], cwd=top, env={"PATH": str(tools), **extra}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


def run(plan: Plan, tools: Path, top: Path, **extra: str) -> tuple[int, str]:
    process = start(plan, tools, top, **extra)
    output, _ = process.communicate(timeout=120)
    return process.returncode, output


def marker(plan: Plan) -> NodeMarker:
    found = deciding_marker(read_markers(Path(JobLayout(plan.job_dir).status)))
    assert found is not None
    return found


@pytest.mark.parametrize("name", ["fallback.sh", "slurm_fallback.sh"])
def test_it_is_short(name):
    (text,) = (each.text for each in slurm_programs() if each.name == name)
    lines = text.splitlines()
    assert len([line for line in lines if line.strip() and not line.lstrip().startswith("#")]) <= MOST


@pytest.mark.parametrize("code", [0, 7])
def test_it_runs_one_process_and_says_how_it_ended(tmp_path, tools, code):
    line = f'echo "$NEMOTRON_JOB_NAME $A $NEMOTRON_NUM_NODES"; echo nemotron-end: mine; exit {code}'
    plan = plan_for(tmp_path, cmd=line, env={"A": "b c"}, setup=("export Q=1",))
    assert run(plan, tools, tmp_path) == (code, f"{plan.name} b c 1\n[rank0] nemotron-end: mine\n")
    assert (marker(plan).exit_code, marker(plan).phase, marker(plan).reason) == (code, "command", "")


def test_a_stop_reaches_the_command_and_its_own_ending_counts(tmp_path, tools):
    line = "trap 'echo stops; exit 5' TERM; echo up; while true; do sleep 0.1; done"
    plan = plan_for(tmp_path, cmd=line)
    process = start(plan, tools, tmp_path)
    assert line_of(process.stdout) == "up\n"
    os.kill(process.pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert (process.returncode, "stops\n" in output) == (5, True), output
    assert (marker(plan).exit_code, marker(plan).received) == (5, "TERM")


def telling(tools: Path, name: str) -> None:
    """A python3 that is none, and tells a signal to the job script that asks it for its version."""
    (tools / "python3").write_text(f"#!/bin/sh\nkill -{name} $PPID\nexit 1\n")
    (tools / "python3").chmod(0o755)


@pytest.mark.parametrize("before", ["", "for ((n = 0; n < 300000; n++)); do :; done; "], ids=["soon", "later"])
def test_what_comes_early_for_the_command_reaches_it(tmp_path, tools, before):
    """Also where its line sets its trap some time after its shell has begun."""
    line = before + "trap 'echo heard; exit 0' USR1; while true; do sleep 0.1; done"
    telling(tools, "USR1")
    plan = plan_for(tmp_path, cmd=line, setup=("sleep 0.5",))
    code, output = run(plan, tools, tmp_path)
    assert (code, output.count("heard\n")) == (0, 1), output
    assert (marker(plan).exit_code, marker(plan).phase, marker(plan).received) == (0, "command", "USR1")


@pytest.mark.parametrize(("name", "code"), [("TERM", 143), ("INT", 130), ("HUP", 129)])
def test_an_early_stop_ends_the_job_before_its_command(tmp_path, tools, name, code):
    telling(tools, name)
    plan = plan_for(tmp_path, cmd="echo no")
    ended, output = run(plan, tools, tmp_path)
    assert (ended, "no\n" in output) == (code, False)
    assert (marker(plan).received, marker(plan).phase, marker(plan).exit_code) == (name, "start", code)
    assert cause(marker(plan)) == f"the job was told to stop (SIG{name}), exit code {code}"


def test_secrets_are_read_hidden_and_removed(tmp_path, tools):
    plan = plan_for(tmp_path, cmd='echo "$MY_TOKEN"; [ "$MY_TOKEN" = "canary 7f3a9" ]', executor="lepton")
    layout = lay_out(plan)
    until(Path(layout.root).is_dir, "its folder")
    script = Path(layout.job_script)
    hidden = script.read_text().replace("nemotron_hidden=''", "nemotron_hidden=MY_TOKEN")
    Path(layout.secrets).write_text("export MY_TOKEN='canary 7f3a9'\n")
    script.write_text(hidden)
    done = subprocess.run(
        ["bash", str(script)], cwd=tmp_path, env={"PATH": str(tools)}, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "******\n"), done.stderr
    assert not Path(layout.secrets).exists()


def test_a_setup_that_fails_is_said(tmp_path, tools):
    plan = plan_for(tmp_path, cmd="echo no", setup=("exit 3",))
    code, output = run(plan, tools, tmp_path)
    assert (code, "no\n" in output) == (3, False)
    assert (marker(plan).phase, cause(marker(plan))) == ("setup", "node 0 failed in its setup, exit code 3")


@pytest.mark.parametrize(("launch", "nodes", "what"), [("torchrun", 1, "its launcher"), ("direct", 2, "several nodes")])
def test_what_it_cannot_do_ends_the_job_with_that_as_its_reason(tmp_path, tools, launch, nodes, what):
    executor = "lepton" if nodes > 1 else "docker"
    plan = plan_for(tmp_path, cmd="echo no", launch=launch, nodes=nodes, executor=executor)
    code, output = run(plan, tools, tmp_path, NEMOTRON_POD_COUNT=str(nodes))
    assert (code, "no\n" in output.replace("has no", "")) == (1, False)
    assert what in marker(plan).reason and marker(plan).reason_code == "image"
