"""What killed processes left of jobs: gone once that is sure, and no sooner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from waiting import line_of

from nemo_runspec.records import JobStore
from nemo_runspec.records.erase import NEW, OLD, erase_if_left_over

SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]


@pytest.fixture
def other():
    """A process that is not this one."""
    child = subprocess.Popen(SLEEP, stdout=subprocess.PIPE)
    assert child.stdout is not None
    line_of(child.stdout)
    yield child
    child.kill()
    child.wait()


def left(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "record.json").write_text("{}")
    return folder


def test_what_a_dead_process_was_removing_goes_at_the_next_look(tmp_path, other):
    folder = left(tmp_path, f"{OLD}a-job-{other.pid}")
    JobStore(tmp_path).clean()
    assert folder.exists(), "it is still being removed"
    other.send_signal(signal.SIGKILL)
    other.wait()
    JobStore(tmp_path).clean()
    assert not folder.exists()


def test_what_was_being_made_may_be_of_another_machine(tmp_path, other, monkeypatch):
    folder = left(tmp_path, f"{NEW}a-job-{other.pid}")
    other.kill()
    other.wait()
    erase_if_left_over(folder)
    assert folder.exists()
    later = time.time() + 90000
    monkeypatch.setattr("time.time", lambda: later)
    erase_if_left_over(folder)
    assert not folder.exists()


@pytest.mark.parametrize("end", ["own", "x", ""])
def test_what_a_living_process_or_nobody_known_removes_waits(tmp_path, end):
    folder = left(tmp_path, f"{OLD}a-job-{os.getpid() if end == 'own' else end}")
    erase_if_left_over(folder)
    assert folder.exists()
