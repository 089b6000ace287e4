"""Pods of images without python3: the least that a job needs, and in words what cannot be had."""

from __future__ import annotations

import os
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest
from pod_process import cloud_plan, loaded, node, start, without
from waiting import LONG

from nemo_runspec.plans.model import Plan


@pytest.fixture
def bare(tmp_path):
    """A PATH without any Python."""
    return without(tmp_path, "python3", "python")


def shell_plan(top: Path, script: str, **values) -> Plan:
    """A plan whose script is one of bash."""
    return cloud_plan(top, script, cmd="bash {script}", **values)


@pytest.mark.parametrize("code", [0, 5])
def test_job_of_one_node_runs_with_its_variables_and_exit_code(tmp_path, bare, code):
    script = f'echo "$MINE $FIRST $NEMOTRON_JOB_NAME"; exit {code}'
    commands = ("echo before", f"touch {tmp_path}/ran")
    plan = shell_plan(tmp_path, script, env={"MINE": "a b", "FIRST": "1"}, target={"pre_launch_commands": commands})
    pod = start(loaded(plan), PATH=bare)
    assert pod.wait() == code, pod.text
    assert f"before\na b 1 {plan.name}\n" in pod.text
    assert (tmp_path / "ran").exists()
    end = pod.end
    assert (end.exit_code, end.phase, end.reason, end.reason_code) == (code, "command", "", "")
    assert end.lines == len(pod.text.splitlines()) - 1
    assert Path(plan.job_dir, "logs/node-0.log").read_text() == pod.text


def test_command_before_the_job_that_fails_ends_it(tmp_path, bare):
    pod = start(loaded(shell_plan(tmp_path, "echo has run", target={"pre_launch_commands": ("(exit 4)",)})), PATH=bare)
    assert pod.wait() == 4
    assert "has run" not in pod.text
    assert (pod.end.reason, pod.end.reason_code) == ("a command of pre_launch_commands failed", "pre_launch")


def test_stop_reaches_the_command(tmp_path, bare):
    script = "trap 'echo saved; exit 7' TERM\necho up\nwhile :; do sleep 0.05; done"
    pod = start(loaded(shell_plan(tmp_path, script)), PATH=bare)
    pod.wait_for("up")
    pod.term()
    assert pod.wait() == 7
    assert "saved\n" in pod.text
    assert (pod.end.exit_code, pod.end.received) == (7, "TERM")


@pytest.mark.parametrize(("name", "code"), [("TERM", 143), ("INT", 130), ("HUP", 129)])
def test_stop_while_the_first_commands_run_says_which(tmp_path, bare, name, code):
    commands = (f"trap 'exit 0' {name}; kill -{name} $PPID; while :; do sleep 0.05; done",)
    pod = start(loaded(shell_plan(tmp_path, "echo has run", target={"pre_launch_commands": commands})), PATH=bare)
    assert pod.wait() == code, pod.text
    assert (pod.end.exit_code, pod.end.received) == (code, name)
    assert pod.end.reason == f"the job was told to stop (SIG{name}) before it had started"


AS_IT_IS_MADE = """\
nemotron_root=/nowhere
eval "$FUNCTIONS"
for name in TERM INT HUP USR1 USR2; do trap "nemotron_tell $name" "$name"; done
set -T; trap '[ "$BASH_COMMAND" != "nemotron_child=\\$!" ] || kill -TERM $$' DEBUG
nemotron_do sleep 600
echo "$nemotron_code $nemotron_told"
"""


def test_stop_as_a_command_is_made_reaches_it():
    """Between the moment that it is there and that in which its number is known."""
    whole = Path(str(files("nemo_runspec")), "jobside/fallback-pod.sh").read_text()
    functions, _ = whole.split("\nmkdir ", 1)
    done = subprocess.run(
        ["bash", "-c", AS_IT_IS_MADE], env={**os.environ, "FUNCTIONS": functions}, capture_output=True, timeout=LONG
    )
    assert done.stdout == b"143 TERM\n", done.stderr


def test_what_is_for_the_command_waits_for_it(tmp_path, bare):
    line = "trap 'echo heard; exit 0' USR1; while :; do sleep 0.05; done"
    target = {"pre_launch_commands": ("kill -USR1 $PPID; sleep 0.1",)}
    pod = start(loaded(cloud_plan(tmp_path, cmd=line, target=target)), PATH=bare)
    assert pod.wait() == 0, pod.text
    assert "heard\n" in pod.text


@pytest.mark.parametrize(
    ("values", "env", "needs"),
    [
        ({"nodes": 2}, node(1), "a job of several nodes"),
        ({"target": {"stall_timeout": 60}}, {}, "stall_timeout"),
        ({"launch": "torchrun"}, {}, "its launcher"),
        ({"target": {"cloud_metadata": ("bucket",), "s3_region": "eu-1"}}, {}, "data on S3"),
    ],
    ids=["nodes", "stall", "torchrun", "metadata"],
)
def test_what_takes_python_ends_the_pod_with_that_as_its_reason(tmp_path, bare, values, env, needs):
    plan = shell_plan(tmp_path, "echo has run", **values)
    cargo = loaded(plan)
    Path(plan.job_dir).parent.mkdir(parents=True)
    if env:  # node 0 unpacks what all of them run, and ends by the same reason
        first = start(cargo, PATH=bare, **node(0))
        assert first.wait() == 1
    pod = start(cargo, PATH=bare, **env)
    assert pod.wait() == 1, pod.text
    assert "has run" not in pod.text
    assert pod.end.reason == f"the image has no python3 (3.6 or later), which {needs} needs"
    assert (pod.end.reason_code, pod.end.node) == ("image", 1 if env else 0)


def test_python_of_another_name_is_enough(tmp_path):
    pod = start(loaded(cloud_plan(tmp_path, "print('ran')")), PATH=without(tmp_path, "python3"))
    assert pod.wait() == 0, pod.text
    assert "ran\n" in pod.text


def test_the_fallback_is_short():
    assert len(Path(str(files("nemo_runspec")), "jobside/fallback-pod.sh").read_text().splitlines()) <= 40
