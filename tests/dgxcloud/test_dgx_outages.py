"""Attached jobs when something goes wrong: with the login, the platform's answers, its log, or the job itself."""

from __future__ import annotations

import re

import pytest
from dgxsite import Site, make_site, var, written
from labs.pods import needs_mounts
from labs.slurm.process import until
from labs.web import WebLab

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
def site(runai_lab, project) -> Site:
    return make_site(runai_lab, project, SCRIPT)


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
    _, said = child.communicate(timeout=120)
    assert child.returncode == 2, said
    assert struck(site.lab, "GET *", 403) > 0
    for word in ("HTTP 403", "Access rules", job.name):
        assert word in said
    assert "Traceback" not in said
    assert job.phase == "Running"
    refusals.times = 0
    site.opened()
    assert site.nemotron("jobs", "wait", job.name).code == 4
    site.ended("failed", 4)


def test_a_cluster_that_shows_its_logs_to_nobody(site):
    """That is said once; the job is followed to its end all the same."""
    site.lab.kube.fault("GET *", "403", times=None)
    told = site.run(*var(CODE=0)).succeeds()
    assert struck(site.lab.kube, "GET *", 403) > 0
    assert told.out.count("this job's log cannot be read from here") == 1
    assert "HTTP 403" in told.out
    site.ended("succeeded", 0)


def test_answers_that_take_their_time(site):
    slow = [site.lab.fault(match, "slow", seconds=1) for match in ("POST /token", "POST /work*", "GET /workloads/*")]
    slow.append(site.lab.kube.fault("GET */log", "slow", seconds=1))
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


@pytest.mark.parametrize("kube", [False, True], ids=["no kube", "gone"])
def test_a_failure_whose_log_nobody_can_read(site, kube):
    """run:ai itself tells no exit code: the job has failed, and it is said that no better is known, and where to look."""
    site.profile(kube=kube)
    if kube:
        site.lab.kube.fault("GET *", "404", times=None)
    told = site.run(*var(CODE=17))
    assert told.code == 1, told.err
    job = site.ended("failed", 1)
    assert "exit_code=17" in written(job)
    assert told.out.count("this job's log cannot be read from here") == 1
    assert f"/data/nemo_run/jobs/{job.name}/logs" in told.out
    assert "exit code" in told.err


def test_an_exit_code_that_only_an_event_tells(site):
    """Kubeflow's operator names it; there is no way to the log."""
    site.profile(kube=False)
    child = site.started(*var(GATE="go", CODE=17))
    job = site.writes(WRITTEN)
    job.tell("ExitedWithCode", f"Pod: {job.pods[0].name} exited with code 17", kind="Warning")
    site.opened()
    _, said = child.communicate(timeout=120)
    assert child.returncode == 17, said
    site.ended("failed", 17)


# What is left of a log


def test_a_log_whose_beginning_is_lost(site):
    """Kubernetes keeps the last lines of a log alone; how many are missing is said, and its end is known."""
    site.lab.scenario(None, "truncated_log", lines=3)
    hidden = site.lab.kube.fault("GET */log", "500", times=None)
    child = site.started(*var(CODE=5))
    job = site.writes("nemotron-end")
    job.over.wait(60)
    hidden.times = 0
    out, said = child.communicate(timeout=120)
    assert child.returncode == 5, said
    kept = out.count("last line") + sum(f"line {number}\n" in out for number in range(6))
    assert 0 < kept < 3
    lost = re.findall(r"nemotron: the cluster has lost (\d+) lines of node 0's log; the log in the job's", out)
    assert [int(number) + kept for number in lost] == [7]
    site.ended("failed", 5)


def test_a_log_whose_end_is_lost(site):
    """Its own end is not in it: the cluster's word counts."""
    site.lab.scenario(None, "truncated_log", lost_end=1)
    told = site.run(*var(CODE=5))
    assert told.code == 5, told.err
    assert told.out.count("last line") == 1
    assert written(site.ended("failed", 5)).count("nemotron-end: ") == 1


# What run:ai says


@pytest.mark.parametrize(
    ("kind", "state", "word"), [("unknown_phase", "unknown", "Hibernating"), ("degraded", "running", "Degraded")]
)
def test_a_phase_that_is_odd(site, kind, state, word):
    """It is shown with run:ai's own word, and the job is followed to its end."""
    site.lab.scenario(None, kind)
    child = site.started(*var(GATE="go", CODE=6))
    job = site.writes(WRITTEN)
    assert job.shown == word
    until(lambda: site.state(job.name) == state, "it was looked at", 60, site.lab.diagnose)
    assert word.lower() in site.nemotron("jobs", "show", job.name).succeeds().out.lower()
    assert child.poll() is None
    site.opened()
    out, said = child.communicate(timeout=120)
    assert child.returncode == 6, said
    assert out.count("last line") == 1
    assert site.ended("failed", 6).phase == "Failed"


@pytest.mark.parametrize(("nodes", "here"), [(1, False), (2, True)], ids=["kube", "claim"])
def test_what_run_ai_preempts_it_runs_anew(site, nodes, here):
    """It is followed through the queue; the log has what both of its lives wrote, once."""
    site.profile(f"nodes = {nodes}", kube=not here, here=here)
    site.project.write("train.py", TWICE)
    child = site.started()
    until(lambda: site.lab.jobs and site.lab.jobs[0].phase == "Running", "it runs", 60, site.lab.diagnose)
    [job] = site.lab.jobs
    until(lambda: site.shown(job.name).count("life 1") == nodes, "it is shown", 60, site.lab.diagnose)
    job.scenario = site.lab.scenario("none", "evicted", reason="Preempted", again=True, after=0)
    until(lambda: written(job).count("life 2") == nodes, "it runs anew", 60, site.lab.diagnose)
    until(lambda: site.shown(job.name).count("life 2") == nodes, "that is shown", 60, site.lab.diagnose)
    assert site.state(job.name) == "running"
    site.opened()
    out, said = child.communicate(timeout=120)
    assert child.returncode == 0, said
    assert [out.count(text) for text in ("life 1", "life 2", "the end")] == [nodes] * 3
    assert "lost" not in out
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
print("the end", flush=True)
"""


@pytest.mark.parametrize("why", ["mount", "secret"])
def test_a_job_that_does_not_start_is_stopped_in_time(site, why):
    if why == "mount":
        site.lab.scenario(None, "badnode")
    else:
        del site.lab.secrets[site.lab.credential("hub", {"KEY": "hidden"})]
    secrets = 'secret_vars = { HF_TOKEN = "hub/KEY" }' if why == "secret" else ""
    site.profile(f'start_timeout = "1s"\non_timeout = "stop"\n{secrets}')
    told = site.run()
    assert told.code == 124, told.err
    job = site.ended("failed", 124)
    assert job.phase == "Stopped"
    verdict = site.verdict(job.name)
    assert verdict["reason"].startswith("start_timeout: it was starting for longer than 1s")
    assert verdict["kind"] == {"mount": "storage", "secret": "credentials"}[why]


def phases(job) -> list[str]:
    """The phases that a workload was in."""
    return [each["spec"]["phaseUpdate"]["phase"] for each in job.history if each["meta"]["type"] == "PhaseUpdate"]
