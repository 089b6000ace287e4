"""What becomes of a job whose supervisor, directory, disk or clock fails it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from job_scripts import alive, kill, lay_out, pause, plan_for, run_script, start_script
from waiting import line_of, until

from nemo_runspec.backends.local import processes
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.markers import cause, read_markers

WAITS = """
import os, time
print(os.getpid(), flush=True)
while not os.path.exists("go"): time.sleep(0.05)
print("done")
"""
FILLS = """
import os
try:
    with open(os.environ["NEMOTRON_JOB_DIR"] + "/fill", "wb", 0) as file:
        while file.write(b"x" * 512): pass
except OSError as error:
    print(error.errno)
raise SystemExit(5)
"""


def records(plan):
    return read_markers(Path(JobLayout(plan.job_dir).status))


def number_in(line: str) -> int:
    found = re.search(r"\d+$", line.strip())
    assert found, line
    return int(found[0])


def test_a_supervisor_that_is_killed_leaves_no_record_and_no_process(tmp_path: Path):
    """Its job is lost, never a success; what it has left is ended by the job's mark."""
    plan = plan_for(tmp_path, WAITS)
    process = start_script(lay_out(plan), tmp_path)
    command = number_in(line_of(process.stdout))
    kill(process.pid)
    assert process.wait(60) == -signal.SIGKILL
    assert records(plan) == ()
    processes.kill_all(plan.job_dir, process.pid)
    until(lambda: not alive(command), "the end of the command")


@pytest.mark.slow
def test_a_ranks_supervisor_that_is_killed_is_no_failure_of_another_rank(tmp_path: Path, torch_bin: Path):
    """torchrun ends the others then. The command that is left is ended too, though it writes nothing and waits."""
    plan = plan_for(tmp_path, WAITS, launch="torchrun", processes=2)
    process = start_script(lay_out(plan), tmp_path, PATH=f"{torch_bin}:{os.environ['PATH']}")
    lines = [line_of(process.stdout)]
    while sum(line.startswith("[rank") for line in lines) < 2:
        lines.append(line_of(process.stdout))
        assert lines[-1], lines
    commands = [number_in(line) for line in lines if line.startswith("[rank")]
    supervisor = json.loads((Path(JobLayout(plan.job_dir).status) / "gates-0" / "rank.0").read_text())["pid"]
    kill(supervisor)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 1, output
    (record,) = records(plan)
    assert (record.exit_code, record.rank) == (1, 0)
    assert cause(record).startswith("rank 0 left no record: its supervisor was killed")
    for command in commands:
        until(lambda command=command: not alive(command), "the end of the command")


def test_a_job_whose_directory_vanishes_ends_as_its_command(tmp_path: Path):
    plan = plan_for(tmp_path, WAITS + "\nraise SystemExit(3)")
    process = start_script(lay_out(plan), tmp_path)
    line_of(process.stdout)
    shutil.rmtree(plan.job_dir)
    (tmp_path / "go").touch()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "[rank0] done\n" in output
    assert "how this node ended cannot be written down" in output
    assert not Path(plan.job_dir).exists()


def test_a_job_that_is_stopped_and_continued_goes_on(tmp_path: Path):
    plan = plan_for(tmp_path, WAITS)
    process = start_script(lay_out(plan), tmp_path)
    command = number_in(line_of(process.stdout))
    for pid in (process.pid, command):
        pause(pid)
    (tmp_path / "go").touch()
    for pid in (process.pid, command):
        os.kill(pid, signal.SIGCONT)
    assert process.communicate(timeout=60)[0] == "[rank0] done\n"
    assert [(record.exit_code, record.received) for record in records(plan)] == [(0, "")]


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_on_a_full_disk_the_job_goes_on_and_its_record_fits(tmp_path: Path):
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], check=True)
    try:
        plan = plan_for(disk, FILLS)
        code, output = run_script(plan, tmp_path)
        assert (code, output) == (5, "[rank0] 28\n")
        (record,) = records(plan)
        assert (record.exit_code, record.phase, record.lines) == (5, "command", 1)
        assert not [path for path in Path(JobLayout(plan.job_dir).status).iterdir() if path.name.startswith("spare")]
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
