"""Which processes are a job's."""

from __future__ import annotations

import os
import subprocess

import pytest

from nemo_runspec.backends.local import processes


@pytest.fixture
def marked():
    """A process with a job's mark, of a session of its own."""
    child = subprocess.Popen(["sleep", "60"], env={**os.environ, "NEMOTRON_JOB_DIR": "/jobs/a"}, start_new_session=True)
    yield child.pid
    child.kill()
    child.wait()


def test_it_is_known_by_its_mark(marked):
    assert processes.members("/jobs/a", 0) == {marked}
    assert processes.members("/jobs/b", 0) == set()


def test_process_2_is_the_kernel_only_outside_of_containers(marked, monkeypatch):
    """Kernel threads, which are not looked at, are children of 2, without a session; in a container 2 is anybody."""
    monkeypatch.setattr(processes, "_process_table", lambda: {marked: (2, marked)})
    assert processes.members("/jobs/a", 0) == {marked}
    monkeypatch.setattr(processes, "_process_table", lambda: {marked: (2, 0)})
    assert processes.members("/jobs/a", 0) == set()
