"""The watchdog of the job script: what counts as progress, and which processes say where they are."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from jobkit import lay_out, plan_for

from nemo_runspec.planning.model import Plan
from nemo_runspec.script import JobLayout, render_job_script
from nemo_runspec.script.markers import cause, decisive, read_markers


@dataclass(frozen=True)
class Watched:
    """A target that asks for the watchdog."""

    stall_timeout: int = 3
    stall_action: str = "stop"


def watched(top: Path, script: str, **values: object) -> Plan:
    plan = plan_for(top, script, executor="slurm", **values)
    return dataclasses.replace(plan, target=Watched())


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


def test_a_hanging_command_and_what_it_has_started(tmp_path: Path):
    """A child of its own session too, and none that is not Python. A path with spaces does not matter."""
    script = """
    import subprocess, sys, time
    def in_the_child(): time.sleep(600)
    def in_the_parent(): child.wait()
    if len(sys.argv) > 1: in_the_child()
    child = subprocess.Popen([sys.executable, __file__, "x"], start_new_session=True)
    print("begun", flush=True)
    in_the_parent()
    """
    process, layout, output = start(watched(tmp_path / "with space", script))
    assert process.wait(60) == 124
    said = output.read_text()
    assert "in in_the_child" in said
    assert "in in_the_parent" in said
    assert all(line.startswith("[rank0] ") for line in said.splitlines() if "in in_the" in line)
    marker = decisive(read_markers(Path(layout.status)))
    assert marker is not None
    assert cause(marker) == "no progress for 3 s (stall_timeout), exit code 124"
    assert (Path(layout.status) / "gates-7-0" / "verdict").read_text() == "stop no progress for 3 s (stall_timeout)\n"


def test_a_command_that_ends_in_time_is_left_alone(tmp_path: Path):
    process, _, output = start(watched(tmp_path, "import time\nfor n in range(6): print(n); time.sleep(1)"))
    assert process.wait(60) == 0
    assert output.read_text() == "".join(f"[rank0] {n}\n" for n in range(6))


def test_where_there_is_nothing_to_look_at_nothing_is_said(tmp_path: Path):
    process, _, output = start(watched(tmp_path, "import time; time.sleep(6); print('done')"), log=False)
    assert process.wait(60) == 0
    assert output.read_text() == "[rank0] done\n"


def test_time_that_a_job_was_suspended_for_does_not_count(tmp_path: Path):
    process, _, output = start(watched(tmp_path, "import time\nprint('begun')\ntime.sleep(2)\nprint('done')"))
    until = time.monotonic() + 30
    while "begun" not in output.read_text():
        assert time.monotonic() < until, output.read_text()
        time.sleep(0.05)
    everyone = processes_of(process.pid)
    for pid in everyone:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(6)
    for pid in everyone:
        os.kill(pid, signal.SIGCONT)
    assert process.wait(60) == 0
    assert "stall" not in output.read_text()


def processes_of(session: int) -> list[int]:
    """Of a session, the youngest last: each is there before what it starts."""
    found = subprocess.run(["ps", "-o", "pid=", "--sid", str(session)], capture_output=True, text=True)
    return [int(pid) for pid in found.stdout.split()]


@pytest.mark.parametrize("times", [3, 4])
def test_it_is_requeued_three_times_at_most(tmp_path: Path, times: int):
    plan = dataclasses.replace(watched(tmp_path, "import time; time.sleep(600)"), target=Watched(2, "requeue"))
    process, layout, _ = start(plan)
    status = Path(layout.status)
    status.mkdir(exist_ok=True)
    (status / "stalls").write_text("7-0\n" * (times - 1))
    assert process.wait(60) == 124
    verdict = (status / "gates-7-0" / "verdict").read_text()
    assert verdict.split()[0] == ("requeue" if times == 3 else "stop")
