"""Workloads that wait for too long, that are tried again, that are stopped: what becomes of them, and what is said."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from dgx_project import var, written
from labs.pods import needs_mounts
from runai_workloads import job_folder, profile
from waiting import LONG, until

pytestmark = needs_mounts

PROFILES = """
[strict]
extends = "dgx"
on_timeout = "stop"

[again]
extends = "dgx"
retries = 1
avoid_failed_nodes = true
"""
SCRIPT = """\
import os, time
print("begun", flush=True)
time.sleep(600 if int(os.environ["NEMOTRON_POD_ATTEMPT"]) < int(os.environ.get("STAY", "0")) else 0)
"""
"""So many of its attempts stay until something ends them."""


@pytest.fixture
def lab(runai_lab, project):
    profile(project, runai_lab, PROFILES)
    project.write("train.py", SCRIPT)
    return runai_lab


def ours(lab, project) -> list[Any]:
    """The workloads of the only job."""
    return [each for each in lab.workloads.values() if each.name.startswith(job_folder(project).name)]


@pytest.mark.parametrize(
    ("scenario", "key", "kind"),
    [("nocapacity", "queue", "capacity"), ("imagepull", "pull", "image"), ("badnode", "start", "node")],
)
def test_a_job_whose_time_is_up_is_stopped_and_diagnosed(lab, project, nemotron_process, scenario, key, kind):
    """Its other deadlines are long: it may come to the one that is meant as late as it likes."""
    lab.scenario(None, scenario)
    assert nemotron_process("run", "./train.py", "--run", "strict", f"run.env.{key}_timeout=1s").code == 124
    verdict = nemotron_process("jobs", "diagnose", "last", "--json").succeeds().json
    assert (verdict["state"], verdict["exit_code"], verdict["kind"]) == ("failed", 124, kind)
    assert verdict["reason"].startswith(f"{key}_timeout: it ")
    assert [each.phase for each in ours(lab, project)] == ["Stopped"]
    assert json.loads((job_folder(project) / "record.json").read_text()).get("elapsed") is None, "it never ran"
    [line] = nemotron_process("jobs", "logs", "last").succeeds().out.splitlines()
    assert line == "nemotron: there is no log of it: none of its pods ever ran"


def test_an_evicted_job_is_tried_again(lab, project, nemotron_process):
    lab.scenario(None, "evicted", when="begun", grace=LONG)
    told = nemotron_process("run", "./train.py", "--run", "again", *var(STAY=1)).succeeds()
    assert "attempt 2 of 2 after: " in told.err
    assert [each.phase for each in ours(lab, project)] == ["Failed", "Completed"]


def test_a_node_that_failed_is_avoided_and_the_attempts_end(lab, project, nemotron_process):
    lab.scenario(None, "badnode", lost=True, times=2, when="begun")
    assert nemotron_process("run", "./train.py", "--run", "again", *var(STAY=2)).code not in (0, 124)
    record = json.loads((job_folder(project) / "record.json").read_text())
    assert [each.phase for each in ours(lab, project)] == ["Failed", "Failed"]
    [bad] = record["attempt"]["avoid"]
    assert record["diagnosis"]["kind"] == "node"
    assert not re.search(rf"\b{bad}\b", record["facts"]["nodes"])


def test_a_job_that_is_stuck_on_a_bad_node_is_tried_on_another(lab, project, nemotron_process):
    """It would stay there for ever, and nobody has asked for that to be stopped: nodes are not held for nothing."""
    lab.scenario(None, "badnode")
    # Not shorter: the second attempt has the same limit, and must come to its start on a busy machine.
    told = nemotron_process("run", "./train.py", "--run", "again", "run.env.start_timeout=20s").succeeds()
    assert "attempt 2 of 2 after: a node is not fit for it" in told.err
    assert [each.phase for each in ours(lab, project)] == ["Stopped", "Completed"]
    record = json.loads((job_folder(project) / "record.json").read_text())
    [bad] = record["attempt"]["avoid"]
    assert bad not in record["facts"]["nodes"].split(",")


def test_stop_keeps_what_cancel_deletes(lab, project, nemotron_process):
    """And the log, which goes with the pods."""
    words = ("run", "./train.py", "--batch", "again", *var(STAY=1))
    name = nemotron_process(*words).succeeds().out.strip()
    until(lambda: any("begun" in written(job) and job.phase == "Running" for job in lab.jobs), "its log while it runs")
    told = nemotron_process("jobs", "stop", name).succeeds().out
    assert told.startswith(f"{name}: cancelled, exit code 143: cancelled by nemotron jobs stop")
    [workload] = ours(lab, project)
    assert workload.phase == "Stopped"
    assert not [call for call in lab.calls if call.method == "DELETE"]
    assert "begun\n" in nemotron_process("jobs", "logs", name).succeeds().out
    told = nemotron_process("jobs", "cancel", name).succeeds().out
    assert f"{name}: deleted: workload {name} ({workload.id})" in told
    assert "it is cancelled and has no replicas" in nemotron_process("jobs", "replicas", name).succeeds().out
    assert "has written nothing about it" in nemotron_process("jobs", "events", name).succeeds().out
