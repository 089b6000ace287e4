"""The faults of the Slurm lab do what they say, Slurm answers them as a real one, and all is mended afterwards."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from slurm_jobs import configured
from waiting import line_of, until

pytestmark = needs_slurm
TESTS = Path(__file__).resolve().parents[1]


def output(lab: SlurmLab, *words: str) -> list[str]:
    """The lines that a command of Slurm's printed."""
    return lab.run(*words).stdout.splitlines()


def held(folder: Path) -> str:
    """A script that makes a file `begun`, and goes on once there is a file `go`."""
    return f"touch {folder}/begun; until [ -e {folder}/go ]; do sleep 0.1; done"


def test_a_restarted_controller_keeps_the_queue(slurm_lab: SlurmLab, tmp_path: Path):
    running = slurm_lab.submit(held(tmp_path))
    waiting = slurm_lab.submit("true", f"--dependency=afterok:{running}")
    until((tmp_path / "begun").exists, "the job's begin")
    slurm_lab.restart("slurmctld")
    assert slurm_lab.state(running) == "RUNNING"
    assert slurm_lab.state(waiting) == "PENDING"
    (tmp_path / "go").touch()
    slurm_lab.wait_for(running, "COMPLETED")
    slurm_lab.wait_for(waiting, "COMPLETED")


def test_a_stopped_controller_is_an_error_not_an_empty_queue(slurm_lab_plain: SlurmLab):
    slurm_lab_plain.stop_daemon("slurmctld")
    asked = slurm_lab_plain.run("squeue", check=False, timeout=120)
    assert asked.returncode != 0
    assert "Unable to contact slurm controller" in asked.stderr


def test_a_frozen_controller_times_out_and_the_job_may_exist_nevertheless(slurm_lab_plain: SlurmLab):
    slurm_lab_plain.freeze("slurmctld")
    refused = slurm_lab_plain.run("sbatch", "--job-name=ghost", "--wrap=true", check=False)
    assert refused.returncode != 0
    assert "Socket timed out on send/recv operation" in refused.stderr
    slurm_lab_plain.thaw("slurmctld")
    asked = ("squeue", "--noheader", "--states=all", "--name=ghost", "--format=%j")
    until(lambda: output(slurm_lab_plain, *asked), "the job nobody was told of", lambda seen: seen == ["ghost"])


def test_work_goes_on_while_slurmdbd_is_away(slurm_lab: SlurmLab):
    slurm_lab.stop_daemon("slurmdbd")
    job = slurm_lab.submit("true")
    slurm_lab.wait_for(job, "COMPLETED")
    assert slurm_lab.run("sacct", check=False).returncode != 0
    slurm_lab.start_daemon("slurmdbd")
    until(lambda: slurm_lab.accounted(job), "sacct", lambda said: said == "COMPLETED 0:0")


def test_a_restarted_slurmd_keeps_its_job(slurm_lab_plain: SlurmLab, tmp_path: Path):
    with configured(slurm_lab_plain, SlurmdTimeout=300):  # else a restart that takes longer costs it the job
        job = slurm_lab_plain.submit(held(tmp_path), "--nodelist=n3")
        until((tmp_path / "begun").exists, "the job's begin")
        slurm_lab_plain.restart("n3")
        assert slurm_lab_plain.state(job) == "RUNNING"
        (tmp_path / "go").touch()
        assert slurm_lab_plain.wait_for(job, "COMPLETED", "FAILED", "NODE_FAIL") == "COMPLETED"


def test_a_slurmd_that_ends_by_itself_is_back_after_the_test(slurm_lab_plain: SlurmLab):
    slurm_lab_plain.run("srun", "--nodelist=n4", "pkill", "-KILL", "slurmd", check=False)
    until(lambda: not slurm_lab_plain.runs("n4"), "its end")
    slurm_lab_plain.reset()
    assert slurm_lab_plain.run("srun", "--nodelist=n4", "hostname").stdout == "n4\n"


def test_a_node_that_is_cut_off_for_a_moment_keeps_its_job(slurm_lab_plain: SlurmLab, tmp_path: Path):
    with configured(slurm_lab_plain, SlurmdTimeout=300):  # what a moment is
        job = slurm_lab_plain.submit(f"{held(tmp_path)}; touch {tmp_path}/end", "--nodelist=n2")
        until((tmp_path / "begun").exists, "the job's begin")
        slurm_lab_plain.node_down("n2")
        (tmp_path / "go").touch()
        until((tmp_path / "end").exists, "the job's end")
        slurm_lab_plain.node_up("n2")
        assert slurm_lab_plain.wait_for(job, "COMPLETED", "NODE_FAIL", seconds=120) == "COMPLETED"


def test_what_slurm_looks_for_twice_a_minute(slurm_lab_plain: SlurmLab, tmp_path: Path):
    """A time limit that is over, and a node without power."""
    lab = slurm_lab_plain
    late = lab.submit(f"touch {tmp_path}/late; sleep 600", "--nodelist=n1", "--time=00:10:00")
    lost = lab.submit(f"touch {tmp_path}/lost; sleep 600", "--nodelist=n2", "--no-requeue")
    until(lambda: {"late", "lost"} <= {path.name for path in tmp_path.iterdir()}, "both jobs' begin")
    lab.run("scontrol", "update", f"JobId={late}", "TimeLimit=0")
    lab.node_off("n2")
    lab.wait_for(late, "TIMEOUT", seconds=240)
    until(lambda: "DUE TO TIME LIMIT" in lab.output(late), "the reason in the job's log")
    lab.wait_for(lost, "NODE_FAIL", seconds=240)
    lab.node_up("n2")
    assert lab.run("srun", "--nodelist=n2", "hostname").stdout == "n2\n"


def test_a_node_set_down_requeues_its_job(slurm_lab_plain: SlurmLab, tmp_path: Path):
    script = f'hostname >> {tmp_path}/log; [ -n "$SLURM_RESTART_COUNT" ] || sleep 600'
    job = slurm_lab_plain.submit(script, "--nodes=1", "--requeue")
    until(lambda: (tmp_path / "log").exists() and (tmp_path / "log").read_text(), "the job's begin")
    slurm_lab_plain.set_node_down("n1")
    slurm_lab_plain.wait_for(job, "COMPLETED")
    assert (tmp_path / "log").read_text() == "n1\nn2\n"


def test_a_lab_ends_with_the_process_that_made_it():
    """The test's own process is killed: nothing of the lab is left."""
    script = (
        "from labs.slurm.cluster import SlurmLab\n"
        "lab = SlurmLab(accounting=False).start()\n"
        "lab.submit('setsid sleep 600')\n"
        "lab.freeze('slurmctld')\n"
        "print(lab.base, (lab.base / 'run' / 'subnet').read_text(), flush=True)\n"
        "input()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    owner = subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    base, subnet = line_of(owner.stdout).split()
    index = socket.if_nametoindex(f"slurm-lab{subnet}")  # another lab may have the name at once, but never the index
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    until(lambda: not Path(base).exists(), "its folder gone")
    until(lambda: index not in dict(socket.if_nameindex()), "its network gone")
    until(lambda: named(base), "the end of its processes", lambda left: not left)
    assert base not in Path("/proc/self/mounts").read_text()


def named(folder: str) -> list[str]:
    """The command lines of this machine's processes that name a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if folder in words and entry.name != str(os.getpid()):
            found.append(words)
    return found


_RUNS: list[int] = []


def test_a_test_one_of_whose_daemons_dies_by_itself_is_run_again(slurm_lab_plain: SlurmLab):
    """And warned of: what a lab's own Slurm breaks is no failure of a test."""
    _RUNS.append(len(_RUNS))
    if len(_RUNS) == 1:
        slurm_lab_plain.crash("n1")
        pytest.fail("its first run")
    assert slurm_lab_plain.runs("n1")
    assert _RUNS == [0, 1]
