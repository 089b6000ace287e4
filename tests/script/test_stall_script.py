"""The watchdog of the job script: what counts as progress, and which processes say where they are."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from job_scripts import lay_out, plan_for
from waiting import until

from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import Target
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.markers import cause, deciding_marker, read_markers
from nemo_runspec.script.render import render_job_script


@dataclass(frozen=True)
class Watched(Target):
    """A target that asks for the watchdog, which waits longer than a busy machine lets anybody stand still."""

    stall_timeout: int = 15
    stall_action: str = "stop"


def watched(top: Path, script: str, seconds: int = Watched.stall_timeout) -> Plan:
    return dataclasses.replace(plan_for(top, script, executor="slurm"), target=Watched(seconds))


def start(plan: Plan, *, log: bool = True) -> tuple[subprocess.Popen[str], JobLayout, Path]:
    """The job script as srun would start it on one node, its output in the file that the watchdog looks at."""
    layout = lay_out(plan)
    script = Path(layout.root) / "job.sh"
    script.write_text(render_job_script(plan, layout))
    output = Path(layout.root) / ("log-name_7_0.out" if log else "elsewhere")
    tools = Path(layout.root) / "tools"
    tools.mkdir()
    (tools / "python").symlink_to(Path(sys.executable).resolve())
    environment = {**os.environ, "SLURM_JOB_ID": "7", "PATH": f"{tools}:/usr/bin:/bin"}
    with output.open("w") as out:
        process = subprocess.Popen(
            ["bash", str(script)], stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, text=True,
            start_new_session=True,
        )  # fmt: skip
    return process, layout, output


@pytest.mark.slow
def test_a_hanging_command_and_what_it_has_started(tmp_path: Path):
    """A child of its own session too, and none that is not Python. A path with spaces does not matter."""
    script = """
    import subprocess, sys, time
    def in_the_child(): print("begun", flush=True); time.sleep(600)
    def in_the_parent(): child.wait()
    if len(sys.argv) > 1: in_the_child()
    child = subprocess.Popen([sys.executable, __file__, "x"], start_new_session=True)
    in_the_parent()
    """
    process, layout, output = start(watched(tmp_path / "with space", script))
    assert process.wait(180) == 124
    # The script waits a few seconds for its last lines, which may come later.
    said = until(output.read_text, "both stacks", lambda text: "in in_the_child" in text and "in in_the_parent" in text)
    assert "[rank" not in said
    marker = deciding_marker(read_markers(Path(layout.status)))
    assert marker is not None
    assert cause(marker) == "no progress for 15 s (stall_timeout), exit code 124"
    assert marker.reason_code == "stall"
    assert (Path(layout.status) / "gates-7-0" / "verdict").read_text() == "stop no progress for 15 s (stall_timeout)\n"


@pytest.mark.slow
def test_a_command_that_ends_in_time_is_left_alone(tmp_path: Path):
    """Of a line each second, for longer than what may come to nothing."""
    process, _, output = start(watched(tmp_path, "import time\nfor n in range(18): print(n); time.sleep(1)"))
    assert process.wait(180) == 0
    until(output.read_text, "all lines", "".join(f"{n}\n" for n in range(18)).__eq__)


def test_where_there_is_nothing_to_look_at_nothing_is_said(tmp_path: Path):
    process, _, output = start(watched(tmp_path, "import time; time.sleep(6); print('done')", 3), log=False)
    assert process.wait(180) == 0
    until(output.read_text, "the only line", "done\n".__eq__)


def test_time_that_a_job_was_suspended_for_does_not_count(tmp_path: Path):
    go = tmp_path / "go"
    script = f"import os, time\nprint('begun')\nwhile not os.path.exists({str(go)!r}): time.sleep(0.1)\nprint('done')"
    process, _, output = start(watched(tmp_path, script))
    until(lambda: "begun" in output.read_text(), "its start")
    until(lambda: not told(process.pid, signal.SIGSTOP, stopped=False), "its standstill")
    time.sleep(Watched.stall_timeout + 3)
    until(lambda: not told(process.pid, signal.SIGCONT, stopped=True), "its going on")
    time.sleep(3)  # the watchdog looks, and nothing has grown
    go.touch()
    assert process.wait(180) == 0, output.read_text()
    said = until(output.read_text, "its end", lambda text: "done" in text)
    assert "stall" not in said


def told(session: int, number: int, *, stopped: bool) -> list[int]:
    """Sends a signal to those of a session that stand still, or do not; returns them.

    They come and go meanwhile: the watchdog starts a `sleep` for every second.
    """
    found = subprocess.run(["ps", "-o", "pid=,stat=", "--sid", str(session)], capture_output=True, text=True)
    states = [line.split() for line in found.stdout.splitlines()]
    meant = [int(pid) for pid, state in states if state[0] != "Z" and (state[0] == "T") == stopped]
    for pid in meant:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    return meant


@pytest.mark.parametrize("times", [3, 4])
def test_it_is_requeued_three_times_at_most(tmp_path: Path, times: int):
    plan = dataclasses.replace(watched(tmp_path, "import time; time.sleep(600)"), target=Watched(2, "requeue"))
    status = Path(JobLayout(plan.job_dir).status)
    status.mkdir(parents=True)
    (status / "stalls").write_text("7-0\n" * (times - 1))
    process, _, _ = start(plan)
    assert process.wait(180) == 124
    verdict = (status / "gates-7-0" / "verdict").read_text()
    assert verdict.split()[0] == ("requeue" if times == 3 else "stop")
