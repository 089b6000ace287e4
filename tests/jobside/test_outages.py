"""What becomes of a job whose supervisor, directory, disk or clock fails it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
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
print("done", flush=True)
"""
AFTER_BOTH = """
open("said" + os.environ["RANK"], "w").close()
while not (os.path.exists("said0") and os.path.exists("said1")): time.sleep(0.05)
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
    assert "done\n" in output
    assert "how this node ended cannot be written down" in output
    assert not Path(plan.job_dir).exists()


def test_a_job_whose_directory_vanishes_in_its_setup_says_so(tmp_path: Path):
    """Its command is not there any more."""
    plan = plan_for(tmp_path, WAITS, setup=('rm -r "$NEMOTRON_JOB_DIR"',))
    code, output = run_script(plan, tmp_path)
    assert code == 2
    assert "can't open file" in output and "how this node ended cannot be written down" in output
    assert not Path(plan.job_dir).exists()


@pytest.mark.slow
def test_under_torchrun_it_ends_as_the_launcher(tmp_path: Path, torch_bin: Path):
    """No rank can say how it has ended. None ends before both have spoken: torchrun ends the others then."""
    plan = plan_for(tmp_path, WAITS + AFTER_BOTH + "raise SystemExit(3)", launch="torchrun", processes=2)
    process = start_script(lay_out(plan), tmp_path, PATH=f"{torch_bin}:{os.environ['PATH']}")
    lines = [line_of(process.stdout)]
    while sum(line.startswith("[rank") for line in lines) < 2:
        lines.append(line_of(process.stdout))
        assert lines[-1], lines
    shutil.rmtree(plan.job_dir)
    (tmp_path / "go").touch()
    output, _ = process.communicate(timeout=300)
    assert (process.returncode, output.count("] done\n")) == (1, 2)
    assert not Path(plan.job_dir).exists()


def test_a_job_whose_directory_vanishes_before_its_supervisor_is_there_is_not_made_again(tmp_path: Path):
    plan = plan_for(tmp_path, "print('runs')")
    layout = lay_out(plan)
    kept = shutil.copytree(layout.root, tmp_path / "kept")
    shutil.rmtree(layout.root)
    values = json.dumps({"name": plan.name, "launch": "direct"})
    words = [sys.executable, "-I", "-S", kept / "supervisor.py", "node", layout.job_script, values]
    done = subprocess.run([*words, f"root={layout.root}"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the job's directory cannot be written: No such file or directory (exit code 1)" in done.stderr
    assert not Path(layout.root).exists()


@pytest.mark.parametrize(("name", "code"), [("job.sh", 127), ("start.sh", 1), ("supervisor.py", 2)])
def test_a_job_of_whose_files_one_is_missing_fails_and_names_it(tmp_path: Path, name: str, code: int):
    plan = plan_for(tmp_path, "print('runs')")
    (Path(lay_out(plan).root) / name).unlink()
    done = subprocess.run(
        ["bash", JobLayout(plan.job_dir).job_script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, records(plan)) == (code, "", ())
    assert f"{name}: No such file" in done.stderr or f"{name}': [Errno 2]" in done.stderr


def test_a_job_that_is_stopped_and_continued_goes_on(tmp_path: Path):
    plan = plan_for(tmp_path, WAITS)
    process = start_script(lay_out(plan), tmp_path)
    command = number_in(line_of(process.stdout))
    for pid in (process.pid, command):
        pause(pid)
    (tmp_path / "go").touch()
    for pid in (process.pid, command):
        os.kill(pid, signal.SIGCONT)
    assert process.communicate(timeout=60)[0] == "done\n"
    assert [(record.exit_code, record.received) for record in records(plan)] == [(0, "")]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")


def left_in(plan) -> list[str]:
    """What is kept for a last record, and drafts, that are still there."""
    status = Path(JobLayout(plan.job_dir).status)
    return [path.name for path in status.rglob("*") if path.name.startswith("spare") or path.suffix == ".tmp"]


@pytest.mark.slow
@needs_root
def test_on_a_full_disk_the_job_goes_on_and_its_record_fits(tmp_path: Path, small_disk: Path):
    plan = plan_for(small_disk, FILLS)
    code, output = run_script(plan, tmp_path)
    assert (code, output) == (5, "28\n")
    (record,) = records(plan)
    assert (record.exit_code, record.phase, record.lines) == (5, "command", 1)
    assert left_in(plan) == []


TAKES = """
import os, sys, time
file = os.open(os.environ["NEMOTRON_JOB_DIR"] + "/taken", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.close(1), os.close(2)
while True:
    try: os.write(file, b"x" * 512)
    except OSError: open("full", "w").close()
"""
FILLED_BY_ANOTHER = """
import os, subprocess, sys, time
if os.environ.get("RANK", "0") == "0":
    subprocess.Popen([sys.executable, "-c", os.environ["TAKES"]], start_new_session=True)
    while not os.path.exists("full"): time.sleep(0.05)
    print("full", flush=True)
    raise SystemExit(5)
time.sleep(600)
"""


@pytest.mark.slow
@needs_root
@pytest.mark.parametrize("launch", ["direct", "torchrun"])
def test_a_record_fits_though_others_take_at_once_what_becomes_free(
    tmp_path: Path, small_disk: Path, torch_bin: Path, launch: str
):
    """As the other ranks' logs do. A rank's record is where its supervisor's note was."""
    ranks = 2 if launch == "torchrun" else 1
    plan = plan_for(small_disk, FILLED_BY_ANOTHER, launch=launch, processes=ranks, env={"TAKES": TAKES})
    process = start_script(lay_out(plan), tmp_path, PATH=f"{torch_bin}:{os.environ['PATH']}", TMPDIR=str(tmp_path))
    try:
        code = process.wait(300)
        (record,) = records(plan)
    finally:
        processes.kill_all(plan.job_dir, process.pid)
    assert (code, record.exit_code, record.phase) == (5, 5, "command")
    assert record.rank == (0 if launch == "torchrun" else None)
    assert record.lines == 1
    assert left_in(plan) == []
