"""Detached jobs of this machine: they outlive whoever started them, and nobody takes a dead one for running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
import support
from job_scripts import alive, kill, pause
from waiting import until

from nemo_runspec.backends.local import processes
from nemo_runspec.records import JobStore

NAP = """\
import os, sys, time
from pathlib import Path
print("begun", os.getpid(), flush=True)
Path("begun").write_text(str(os.getpid()))
end = time.monotonic() + 600
while not Path("go").exists() and time.monotonic() < end:
    time.sleep(0.02)
print("over", flush=True)
sys.exit(int(Path("go").read_text() or 0) if Path("go").exists() else 99)
"""
STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + NAP
TREE = "import subprocess\nsubprocess.Popen(['setsid', 'sleep', '300'])\n" + NAP


@pytest.fixture
def box(project, nemotron_process):
    """`box.start(script)` starts a detached job; what is left of it is killed at the end."""
    project.write("env.toml", '[local]\nexecutor = "local"\n')
    made = Box(project, nemotron_process)
    yield made
    for record in made.store.list():
        processes.kill_all(str(made.store.folder(record.name)), 0)


class Box:
    def __init__(self, project, nemotron):
        self.project = project
        self.nemotron = nemotron
        self.store = JobStore(project.state / "jobs")

    def start(self, script: str = NAP, *words: str, profile: str = "local") -> str:
        self.project.write("nap.py", script)
        self.nemotron("run", "./nap.py", "--batch", profile, *words).succeeds()
        return self.store.list()[0].name

    def begun(self) -> int:
        """The process id of the newest job's command, once that runs and the job's record says so too."""
        pid = int(until(lambda: self.text("begun"), "the command"))
        until(lambda: self.store.list()[0].state, "the record", good=lambda state: state == "running")
        return pid

    def text(self, name: str) -> str:
        path = self.project.folder / name
        return path.read_text() if path.exists() else ""

    def go(self, code: int = 0) -> None:
        """Lets it end. The file appears with what is in it: the job may look at any moment."""
        self.project.write("go.new", str(code)).replace(self.project.folder / "go")

    def ended(self, name: str):
        return until(lambda: self.store.get(name), "its end", good=lambda record: record.ended)

    def log(self, name: str) -> str:
        return (self.store.folder(name) / "logs" / "job.log").read_text()


def test_it_returns_at_once_and_the_job_goes_on(box):
    name = box.start()
    box.begun()
    record = box.store.get(name)
    assert (record.state, record.mode, record.profile) == ("running", "batch", "local")
    box.go(3)
    record = box.ended(name)
    assert (record.state, record.exit_code) == ("failed", 3)
    assert box.log(name).splitlines()[-1] == "over"


def test_what_is_said_names_the_job_and_how_to_go_on(box):
    box.project.write("nap.py", "print(1)")
    done = box.nemotron("run", "./nap.py", "--batch", "local").succeeds()
    name = box.store.list()[0].name
    assert done.out == f"{name}\n"
    assert f"nemotron jobs logs -f {name}" in done.err
    assert box.ended(name).state == "succeeded"


def test_the_launchers_streams_are_let_go(box):
    """A pipe that the job held would never end: `nemotron … --batch local | cat` would hang."""
    box.project.write("nap.py", NAP)
    child = support.start(box.project, "run", "./nap.py", "--batch", "local")
    child.communicate(timeout=120)
    assert child.returncode == 0
    box.begun()
    box.go()
    assert box.ended(box.store.list()[0].name).state == "succeeded"


def test_it_outlives_its_terminal_and_its_shell(box):
    """The whole session of the shell that started it is killed, and its terminal hung up."""
    box.project.write("nap.py", NAP)
    line = f"{sys.executable} -m nemotron run ./nap.py --batch local; sleep 600"
    controller, terminal = os.openpty()
    shell = subprocess.Popen(
        ["bash", "-c", line], cwd=box.project.folder, env=box.project.environment(),
        stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
    )  # fmt: skip
    os.close(terminal)
    pid = box.begun()
    os.close(controller)
    os.killpg(shell.pid, signal.SIGHUP)
    os.killpg(shell.pid, signal.SIGKILL)
    shell.wait(timeout=120)
    assert alive(pid)
    box.go(5)
    assert box.ended(box.store.list()[0].name).exit_code == 5


@pytest.mark.slow
def test_a_mistake_is_told_before_anything_is_done(box):
    box.nemotron("run", "./gone.py", "--batch", "local").refuses("gone.py")
    box.project.write("nap.py", NAP)
    box.nemotron("run", "./nap.py", "--batch", "nowhere").refuses("nowhere")
    assert box.store.list() == []


def test_a_job_that_cannot_be_recorded_is_said_to_whoever_started_it(box):
    box.project.write("nap.py", NAP)
    box.project.state.mkdir()
    (box.project.state / "jobs").write_text("not a folder")
    done = box.nemotron("run", "./nap.py", "--batch", "local")
    assert done.code in (1, 2)
    assert done.err.startswith("error: ")
    assert "Traceback" not in done.err
    (box.project.state / "jobs").unlink()


def test_an_environment_that_cannot_be_made_is_a_failed_job(box):
    header = '# /// script\n# dependencies = ["no-such-package-of-nemotron==0.0.1"]\n# ///\n'
    name = box.start(header + NAP)
    record = box.ended(name)
    assert (record.state, record.exit_code) == ("failed", 2)
    said = box.store.folder(name) / "supervisor.log"  # which its supervisor writes after the record
    until(lambda: "no-such-package-of-nemotron" in said.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("script", [NAP, TREE], ids=["one process", "a tree that left its session"])
def test_cancel_ends_the_whole_tree(box, script):
    name = box.start(script)
    pid = box.begun()
    done = box.nemotron("jobs", "cancel", name, "--grace", "60").succeeds()
    record = box.store.get(name)
    assert (record.state, record.exit_code) == ("cancelled", 143), done.err
    assert "nemotron jobs cancel" in record.cause
    assert not alive(pid)
    assert processes.members(str(box.store.folder(name)), 0) == set()


def test_cancel_kills_what_does_not_stop(box):
    name = box.start(STUBBORN)
    pid = box.begun()
    box.nemotron("jobs", "cancel", name, "--grace", "1").succeeds()
    record = box.store.get(name)
    assert (record.state, "without its supervisor" in record.cause) == ("cancelled", False)
    assert not alive(pid)


@pytest.mark.slow
def test_cancel_of_an_attached_job_from_another_terminal(box):
    box.project.write("nap.py", NAP)
    child = support.start(box.project, "run", "./nap.py")
    box.begun()
    box.nemotron("jobs", "cancel", "last").succeeds()
    _, errors = child.communicate(timeout=120)
    assert child.returncode == 143
    assert "nemotron jobs cancel" in errors


@pytest.mark.slow
def test_cancel_of_an_ended_job_changes_nothing(box):
    name = box.start("print(1)")
    box.ended(name)
    box.nemotron("jobs", "cancel", name).succeeds()
    assert box.store.get(name).state == "succeeded"


@pytest.mark.slow
def test_a_killed_supervisor_is_found_out(box):
    """The job's own processes are told to stop by the kernel then; what it left says how it ended."""
    name = box.start()
    pid = box.begun()
    kill(box.store.get(name).launcher.pid)
    until(lambda: not alive(pid))
    record = until(lambda: box.store.get(name), good=lambda record: record.state != "running")
    assert record.state == "lost"
    listed = box.nemotron("jobs", "list", "--json").succeeds().json
    assert listed[0]["state"] == "lost"


@pytest.mark.slow
def test_a_job_that_goes_on_without_its_supervisor_can_be_cancelled(box):
    name = box.start(STUBBORN)
    pid = box.begun()
    script = box.store.get(name).process.pid
    pause(script)  # so that the job script cannot end the rest when its supervisor dies
    kill(box.store.get(name).launcher.pid)
    assert box.nemotron("jobs", "show", name, "--json").succeeds().json["state"] == "running"
    box.nemotron("jobs", "cancel", name, "--grace", "1").succeeds()
    assert not alive(pid)
    assert not alive(script)
    assert box.store.get(name).state == "cancelled"


def test_a_restarted_machine_is_found_out(box):
    """The record of a job that was running says another boot: as if the machine had been switched off under it."""
    name = box.start()
    box.begun()
    kill(box.store.get(name).launcher.pid)
    assert processes.kill_all(str(box.store.folder(name)), 0, seconds=120)
    file = box.store.folder(name) / "record.json"
    data = json.loads(file.read_text())
    boot, _, rest = data["launcher"]["machine"].partition(" ")
    data["launcher"]["machine"] = f"{boot[::-1]} {rest}"
    data["states"] = [s for s in data["states"] if s["state"] in ("planned", "starting", "running")]
    data.update(exit_code=None, cause="")
    file.write_text(json.dumps(data))
    for marker in (box.store.folder(name) / "status").glob("node-*"):
        marker.unlink()
    shown = box.nemotron("jobs", "show", name, "--json").succeeds().json
    assert shown["state"] == "lost"
    assert "restart" in shown["states"][-1]["reason"]


def test_ctrl_c_before_it_is_recorded_leaves_nothing_that_goes_on(box):
    """A sweep of many plans is made ready by the process that will be detached; Ctrl-C must still reach that one."""
    box.project.recipe("toy/train", body="print(1)\n", default="lr: 0.1\n")
    # As many as there may be, so that the plans take longer to make than this test may take to look.
    words = ["toy", "train", "--batch", "local", "-m", "lr=range(0,1000)"]
    child = subprocess.Popen(
        [sys.executable, "-m", "nemotron", *words], cwd=box.project.folder, env=box.project.environment(),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    until(lambda: [p for p in processes_of(child.pid) if p != child.pid])
    os.killpg(child.pid, signal.SIGINT)
    child.communicate(timeout=120)
    assert child.returncode == 130
    until(lambda: not any(alive(pid) for pid in processes_of(child.pid)))
    assert not (box.project.state / "sweeps").exists()
    assert box.store.list() == []


def processes_of(session: int) -> list[int]:
    shown = subprocess.run(["ps", "-o", "pid=", "-g", str(session)], capture_output=True, text=True).stdout
    return [int(pid) for pid in shown.split()]
