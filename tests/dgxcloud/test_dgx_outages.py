"""Attached jobs when something goes wrong: with the login, the platform's answers, its log, or the job itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from dgx_project import Site, make_site, var, written
from labs.pods import needs_mounts
from labs.web import WebLab
from waiting import LONG, until

from nemo_runspec.backends.cloud.log_cursor import LogCursor, LogLine
from nemo_runspec.backends.dgxcloud.logs import kube

pytestmark = needs_mounts

SCRIPT = """\
import os, pathlib, sys, time
ballast = bytearray(int(os.environ.get("MEGABYTES", "0")) << 20)
for number in range(6):
    print("line", number, flush=True)
while os.environ.get("GATE") and not pathlib.Path("/data", os.environ["GATE"]).exists():
    time.sleep(0.05)
print("last line", flush=True)
sys.exit(int(os.environ.get("CODE", "0")))
"""
WRITTEN = "line 5"
"""What the script writes before it waits at its gate."""


@pytest.fixture
def site(runai_lab, project) -> Iterator[Site]:
    with make_site(runai_lab, project, SCRIPT) as found:
        yield found


def struck(lab: WebLab, match: str, status: int) -> int:
    """How many calls were answered so."""
    return sum(call.status == status for call in lab.calls_of(match))


# The login and the permissions


def test_a_token_that_can_no_longer_be_renewed(site):
    """It is said whose fault it is; the job goes on, and once the application is accepted again its end is found."""
    site.lab.scenario(None, "expired", when=WRITTEN)
    refusals = site.lab.fault("POST /token", "401", times=None, after=1)
    told = site.run(*var(GATE="go", CODE=5))
    [job] = site.lab.jobs
    assert told.code == 2, told.err
    assert struck(site.lab, "POST /token", 401) > 0
    for word in ("does not accept the application's credentials (HTTP 401)", "client_secret", job.name):
        assert word in told.err
    assert site.lab.client_secret not in told.err + told.out
    assert "Traceback" not in told.err
    assert job.phase == "Running"
    assert len(site.lab.pods.running) == 1
    assert site.state(job.name) in ("queued", "starting", "running")
    refusals.times = 0
    site.opened()
    waited = site.nemotron("jobs", "wait", job.name)
    assert waited.code == 5, waited.err
    site.ended("failed", 5)
    assert site.nemotron("jobs", "logs", job.name).succeeds().out.count("last line") == 1


def test_an_application_that_is_not_allowed_to_submit(site):
    site.lab.fault("POST /workloads/*", "403", times=None)
    told = site.run()
    assert told.code == 2, told.err
    assert "HTTP 403" in told.err
    assert "Access rules" in told.err
    assert "Traceback" not in told.err
    assert struck(site.lab, "POST /workloads/*", 403) == 1, "asking again would not help"
    assert site.lab.jobs == []
    names = [path.parent.name for path in (site.project.state / "jobs").glob("*/record.json")]
    assert [site.state(name) for name in names] in ([], ["failed"]), "nothing is on its way"


def test_a_permission_that_is_lost_meanwhile(site):
    child = site.started(*var(GATE="go", CODE=4))
    job = site.writes(WRITTEN)
    refusals = site.lab.fault("GET /workloads*", "403", times=None)
    told = site.end_of(child)
    assert told.code == 2, told.err
    assert struck(site.lab, "GET *", 403) > 0
    for word in ("HTTP 403", "Access rules", job.name):
        assert word in told.err
    assert "Traceback" not in told.err
    assert job.phase == "Running"
    refusals.times = 0
    site.opened()
    assert site.nemotron("jobs", "wait", job.name).code == 4
    site.ended("failed", 4)


def test_answers_that_take_their_time(site):
    slow = [site.lab.fault(match, "slow", seconds=0.7) for match in ("POST /token", "POST /work*", "GET /workloads/*")]
    slow.append(site.lab.kube.fault("GET */log", "slow", seconds=0.7))
    told = site.run(*var(CODE=3))
    assert told.code == 3, told.err
    assert [fault.times for fault in slow] == [0, 0, 0, 0], "all of them struck"
    assert [told.out.count(f"line {number}") for number in range(6)] == [1] * 6
    assert told.out.count("last line") == 1
    site.ended("failed", 3)


# How jobs fail


def test_a_job_that_fails_before_it_was_seen_running(site):
    """Its own scripts ran, so that all of its lines are shown and its own exit code counts."""
    site.lab.scenario(None, "quickfail", script="exec /bin/bash -c 'eval \"$NEMOTRON_BOOT\"'")
    told = site.run(*var(CODE=7))
    assert told.code == 7, told.err
    assert [told.out.count(f"line {number}") for number in range(6)] == [1] * 6
    job = site.ended("failed", 7)
    assert "Running" not in phases(job)
    assert site.verdict(job.name)["kind"] == "user code"


def test_a_container_that_fails_at_once(site):
    """Nothing of ours ran in it: what the cluster has of its log is shown all the same, and its exit code counts."""
    site.lab.scenario(None, "quickfail", script="echo cannot import name: it failed at once; exit 9")
    told = site.run()
    assert told.code == 9, told.err
    assert told.out.count("cannot import name: it failed at once\n") == 1
    job = site.ended("failed", 9)
    assert "Running" not in phases(job)
    verdict = site.verdict(job.name)
    assert verdict["kind"] == "user code"
    assert "cannot import name" in str(verdict["evidence"])


@pytest.mark.parametrize("whole", [False, True], ids=["its command", "all of it"])
def test_a_job_that_is_killed_for_its_memory(site, whole):
    """The kernel takes its command, and our scripts live to say so; or all of it, and the cluster alone says why."""
    site.lab.scenario(None, "oom", when=WRITTEN, whole=whole)
    told = site.run(*var(MEGABYTES=120, GATE="never"))
    assert told.code == 137, told.err
    assert WRITTEN in told.out
    job = site.ended("failed", 137)
    assert job.pods[0].process.oom_killed
    assert ("nemotron-end: " in written(job)) is not whole
    verdict = site.verdict(job.name)
    assert verdict["kind"] == "out of memory"
    assert verdict["remedy"]
    assert "memory" in told.err


@pytest.mark.parametrize("kube", [False, True], ids=["no cluster", "cluster that shows nobody its logs"])
def test_a_failure_whose_log_nobody_can_read(site, kube):
    """run:ai itself tells no exit code: it is said that none is known, and where the log is."""
    site.profile(kube=kube)
    site.lab.kube.fault("GET *", "403", times=None)
    told = site.run(*var(CODE=17))
    assert told.code == 1, told.err
    assert bool(struck(site.lab.kube, "GET *", 403)) is kube
    job = site.ended("failed", 1)
    assert "exit_code=17" in written(job)
    assert told.out.count("this job's log cannot be read from here") == 1
    assert ("HTTP 403" in told.out) is kube
    assert f"/data/nemo_run/jobs/{job.name}/logs" in told.out
    assert "its exit code is not known from here" in told.err
    assert sum(call.path.endswith("/log") for call in site.lab.kube.calls) <= 3 * kube, (
        "a stray refusal or two, and no more"
    )
    assert "run_dir_here" in site.verdict(job.name)["remedy"]


def test_an_exit_code_that_only_an_event_tells(site):
    """Kubeflow's operator names it; there is no way to the log."""
    site.profile(kube=False)
    child = site.started(*var(GATE="go", CODE=17))
    job = site.writes(WRITTEN)
    job.tell("ExitedWithCode", f"Pod: {job.pods[0].name} exited with code 17", kind="Warning")
    site.opened()
    told = site.end_of(child)
    assert told.code == 17, told.err
    site.ended("failed", 17)


# What is left of a log


def test_a_log_whose_beginning_is_lost(site):
    """Kubernetes keeps the last lines of a log alone; how many are missing is said, and its end is known."""
    site.lab.scenario(None, "truncated_log", lines=3)
    name = site.run(*var(CODE=5), mode="--batch").succeeds().out.strip()
    assert site.writes("nemotron-end").over.wait(LONG)
    assert site.nemotron("jobs", "wait", name).code == 5
    log = site.nemotron("jobs", "logs", name).succeeds().out
    kept = log.count("last line") + sum(f"line {number}\n" in log for number in range(6))
    assert 0 < kept < 3
    lost = re.findall(r"nemotron: the cluster has lost (\d+) lines of node 0's log; the log in the job's", log)
    assert [int(number) + kept for number in lost] == [7]
    site.ended("failed", 5)


# What run:ai says


def test_phases_that_are_odd(site):
    """They are shown with run:ai's own word, and the job is followed to its end."""
    scenario = site.lab.scenario(None, "degraded")
    child = site.started(*var(GATE="go", CODE=6))
    job = site.writes(WRITTEN)
    for kind, state, word in (("degraded", "running", "degraded"), ("unknown_phase", "unknown", "Hibernating")):
        scenario.kind = kind
        until(lambda: site.state(job.name) == state, "it was looked at")  # noqa: B023
        assert word in site.nemotron("jobs", "show", job.name).succeeds().out
        assert child.poll() is None
    site.opened()
    told = site.end_of(child)
    assert told.code == 6, told.err
    assert told.out.count("last line") == 1
    assert site.ended("failed", 6).phase == "Failed"


@pytest.mark.parametrize(("nodes", "here"), [(1, False), (2, True)], ids=["kube", "claim"])
def test_what_run_ai_preempts_it_runs_anew(site, nodes, here):
    """It is followed through the queue; the log has what both of its lives wrote, once."""
    site.profile(f"nodes = {nodes}", kube=not here, here=here)
    site.lab.timing.clean = LONG
    site.project.write("train.py", TWICE)
    child = site.started()
    until(lambda: site.lab.jobs and site.lab.jobs[0].phase == "Running", "it runs")
    [job] = site.lab.jobs
    until(lambda: site.shown(job.name).count("life 1") == nodes, "it is shown")
    job.scenario = site.lab.scenario("none", "evicted", reason="Preempted", again=True, after=0)
    until(lambda: written(job).count("life 2") == nodes, "it runs anew")
    until(lambda: site.shown(job.name).count("life 2") == nodes, "that is shown")
    until(lambda: site.state(job.name) == "running", "it was looked at")
    site.opened()
    told = site.end_of(child)
    assert told.code == 0, told.err
    assert [told.out.count(text) for text in ("life 1", "life 2", "the end")] == [nodes] * 3
    assert "lost" not in told.out
    assert site.ended("succeeded", 0).name == site.lab.jobs[0].name
    assert len(site.lab.calls_of("POST /workloads/*")) == 1, "nobody has submitted it once more"


TWICE = """\
import os, pathlib, time
life = pathlib.Path("/data", "life-" + os.environ["NEMOTRON_NODE_RANK"])
second = life.exists()
life.touch()
print("life", 1 + second, flush=True)
while not (second and pathlib.Path("/data/go").exists()):
    time.sleep(0.05)
time.sleep(float(os.environ["NEMOTRON_NODE_RANK"]))  # node 0 is the first to end, and waits for the other
print("the end", flush=True)
"""


def test_what_a_pod_loses_of_its_second_life_is_said():
    """It has ended once, and its log is whole only once it has ended again."""
    end = b"nemotron-end: node=0 attempt=0 exit_code=%d lines=%d reason=\n"
    texts = [b"a\n", b"b\n", end % (143, 2), b"c\n", end % (0, 3)]
    lines = [LogLine(number, text) for number, text in enumerate(texts, 1)]
    wholes, told, cursor = [], [], LogCursor()
    for line in lines:
        told.append(cursor.text([line], kube._LOST))
        cursor = LogCursor.parse(cursor.moved([line]).json)
        wholes.append(kube.is_whole({"name": "job-1"}, {"job-1-0-0": cursor.json}))
    assert wholes == [False, False, True, False, True]
    assert b"".join(told).startswith(b"".join(texts))
    assert b"the cluster has lost 2 lines of node 0's log" in told[-1]
    assert LogCursor().text(lines, kube._LOST) == b"".join(told)
    assert LogCursor().moved(lines) == cursor


def test_a_job_that_does_not_start_is_stopped_in_time(site):
    """Its volumes cannot be mounted, while run:ai calls it Creating: it has its nodes, and does not wait for any."""
    site.lab.scenario(None, "badnode")
    site.profile('queue_timeout = "10m"\nstart_timeout = "1s"\non_timeout = "stop"')
    told = site.run()
    assert told.code == 124, told.err
    job = site.ended("failed", 124)
    assert job.phase == "Stopped"
    assert "Initializing" not in phases(job)
    verdict = site.verdict(job.name)
    assert verdict["reason"].startswith("start_timeout: it was starting for longer than 1 s")
    assert verdict["kind"] == "node"
    assert "FailedMount" in str(verdict)


def phases(job) -> list[str]:
    """The phases that a workload was in."""
    return [each["spec"]["phaseUpdate"]["phase"] for each in job.history if each["meta"]["type"] == "PhaseUpdate"]
