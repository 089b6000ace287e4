"""A job that hangs is ended on a real Slurm, with the stacks of every rank in its log.

The timeouts are long enough for a Python to start on a busy machine: until it has, it makes no progress either.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from slurm_jobs import LabHost, slurm_plan, start, tasks_said, wait

pytestmark = needs_slurm

HANGS = """
import os, time
def waits_for_ever():
    time.sleep(600)
print("begun", flush=True)
waits_for_ever()
"""


@pytest.fixture
def host(slurm_lab_plain: SlurmLab) -> LabHost:
    return LabHost(slurm_lab_plain)


def without_py_spy(folder: Path) -> dict[str, str]:
    """A PATH with a Python of the standard library alone."""
    folder.mkdir()
    (folder / "python").symlink_to(Path(sys.executable).resolve())
    return {"PATH": f"{folder}:/usr/bin:/bin"}


@pytest.mark.parametrize("py_spy", [True, False], ids=["py-spy", "abort"])
def test_both_ranks_of_a_hanging_job_say_where_they_are(host: LabHost, tmp_path: Path, py_spy: bool):
    env = {} if py_spy else without_py_spy(tmp_path / "tools")
    plan = slurm_plan(tmp_path, HANGS, {"stall_timeout": "20s", "retries": 2}, nodes=2, env=env)
    job = start(host, plan)
    seen = wait(host, job)
    said = tasks_said(plan, job)
    assert (seen.state, seen.exit_code, seen.restarts) == ("failed", 124, 0), said
    assert "no progress for 20 s (stall_timeout)" in seen.reason
    stacks = {line.split()[0] for line in said.splitlines() if "waits_for_ever" in line}
    assert stacks == {"[rank0]", "[rank1]"}, said
    assert ("Fatal Python error: Aborted" in said) != py_spy, said


def test_it_may_be_requeued(host: LabHost, tmp_path: Path):
    script = """
    import os, time
    print("attempt", os.environ["NEMOTRON_ATTEMPT"], flush=True)
    if os.environ["NEMOTRON_ATTEMPT"] == "0":
        time.sleep(600)
    """
    plan = slurm_plan(tmp_path, script, {"stall_timeout": "20s", "stall_action": "requeue"})
    job = start(host, plan)
    seen = wait(host, job)
    assert (seen.state, seen.restarts) == ("succeeded", 1)
    assert tasks_said(plan, job, 1) == "nemotron: attempt 2\nattempt 1\n"


def test_who_only_writes_metrics_is_not_stalled(host: LabHost, tmp_path: Path):
    script = """
    import os, time
    for step in range(50):
        with open(os.environ["NEMOTRON_METRICS_FILE"], "a") as file:
            print('{"step": %d}' % step, file=file)
        time.sleep(0.5)
    print("done")
    """
    plan = slurm_plan(tmp_path, script, {"stall_timeout": "20s"})
    job = start(host, plan)
    assert wait(host, job).state == "succeeded"
    assert tasks_said(plan, job) == "done\n"
