"""What must not be lost, shown or told wrongly: a full disk, a folder that is removed, a secret that was typed."""

from __future__ import annotations

import os
import re
import signal
import subprocess

import pytest
import support
from job_scripts import alive, pause
from waiting import until

from nemo_runspec.backends.local import processes
from nemo_runspec.records import JobStore
from nemo_runspec.records.lock import locked

CANARY = "hf_canary_5f1c9e7d"
NAP = "import os, time\nfrom pathlib import Path\nPath('begun').write_text(str(os.getpid()))\ntime.sleep(600)\n"


@pytest.fixture
def nap(project, nemotron_process):
    """A detached job that naps, as its record says too: its name and its command's process id. It ends with the test.

    Its supervisor holds no lock and writes nothing any more.
    """
    project.write("nap.py", NAP)
    words = ["run", "./nap.py", "--batch", "local", f"+run.env.env_vars.HF_TOKEN={CANARY}"]
    name = nemotron_process(*words, cold=True).succeeds().out.strip()  # its command line is looked at
    begun, store = project.folder / "begun", JobStore(project.state / "jobs")
    pid = int(until(lambda: begun.exists() and begun.read_text(), "the command"))
    until(lambda: store.get(name).state, "the record", good=lambda state: state == "running")
    with locked(store.folder(name)):
        pass
    yield name, pid
    processes.kill_all(str(store.folder(name)), 0)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of a megabyte and a half, where one may be mounted."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1536k", "tmpfs", str(folder)], capture_output=True)
    if done.returncode != 0:
        pytest.fail(f"no file system can be mounted here: {done.stderr.decode()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.lab("mount", how="as root: REQUIRE_LAB=1 uv run --group dev pytest")
@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("how", ["attached", "detached"])
def test_a_full_disk_does_not_change_how_a_job_ended(project, nemotron_process, small_disk, code, how):
    project.write("train.py", f"print('x' * 4_000_000)\nprint('END')\nraise SystemExit({code})\n")
    environment = {"NEMOTRON_HOME": str(small_disk / "state")}
    words = ["--batch", "local"] if how == "detached" else []
    done = nemotron_process("run", "./train.py", *words, **environment)
    if how == "attached":
        assert done.code == code, done.err
        assert "the log cannot be written" in done.err
    assert nemotron_process("jobs", "wait", "last", **environment).code == code
    record = JobStore(small_disk / "state" / "jobs").list()[0]
    assert (record.state, record.exit_code) == ("failed" if code else "succeeded", code)
    assert re.search(r"\d lines of its output could not be written", record.cause), record.cause


def test_a_job_whose_folder_is_removed_does_not_run_on_unseen(project, nap):
    name, pid = nap
    folder = project.state / "jobs" / name
    subprocess.run(["rm", "-rf", str(folder)], check=True)
    until(lambda: not alive(pid))


def test_the_process_list_shows_no_secret_of_a_detached_job(nap, nemotron_process):
    name, _ = nap
    shown = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert CANARY not in shown
    assert f"nemotron: supervises {name}" in shown
    nemotron_process("jobs", "cancel", name).succeeds()


def test_a_metric_whose_name_is_a_secret(project, nemotron_process, monkeypatch):
    body = "import json, os\nname = 'x_' + os.environ['HF_TOKEN']\n"
    body += "print(json.dumps({name: 2}), file=open(os.environ['NEMOTRON_METRICS_FILE'], 'a'))\n"
    project.write("train.py", body)
    nemotron_process("run", "./train.py", HF_TOKEN=CANARY).succeeds()
    record = JobStore(project.state / "jobs").list()[0]
    assert dict(record.metrics) == {"x_******": 2}


def test_a_retry_without_its_secret_names_no_new_job(project, nemotron_process):
    project.write("train.py", "print(1)\n")
    nemotron_process("run", "./train.py", HF_TOKEN=CANARY).succeeds()
    done = nemotron_process("jobs", "retry", "last")
    done.refuses("HF_TOKEN")
    assert "run again as" not in done.err


def test_a_relative_home_is_refused(project, nemotron_process):
    nemotron_process("jobs", "list", NEMOTRON_HOME="here").refuses("NEMOTRON_HOME", "absolute")


def test_local_needs_no_env_file(project, nemotron_process):
    project.env_file.unlink()
    project.write("train.py", "print(1)\n")
    name = nemotron_process("run", "./train.py", "--batch", "local").succeeds().out.strip()
    assert nemotron_process("jobs", "wait", name).code == 0
    nemotron_process("run", "./train.py", "--run", "locl").refuses("locl")


@pytest.mark.slow
def test_a_stopped_supervisor_is_not_said_to_be_gone(project, nap, nemotron_process):
    name, _ = nap
    store = JobStore(project.state / "jobs")
    supervisor = store.get(name).launcher.pid
    pause(supervisor)
    try:
        nemotron_process("jobs", "cancel", name, "--grace", "0.5").succeeds()
        assert "did not answer" in store.get(name).cause
    finally:
        os.kill(supervisor, signal.SIGCONT)
    until(lambda: not alive(supervisor))
    assert store.get(name).state == "cancelled"
    assert support.process(project, "jobs", "wait", name).code == 143
