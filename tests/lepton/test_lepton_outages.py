"""Attached jobs when something goes wrong: with the login, the platform's answers, its log, or the job itself."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from labs.lepton.job import Job
from labs.pods import needs_mounts
from lepton_project import Site, make_site, var
from waiting import until

pytestmark = needs_mounts

SCRIPT = """\
import os, pathlib, sys, time
ballast = bytearray(int(os.environ.get("MEGABYTES", "0")) << 20)
for number in range(6):
    print("line", number, "- this one is dropped" if number % 2 else "", flush=True)
while os.environ.get("GATE") and not pathlib.Path("/mnt/lustre", os.environ["GATE"]).exists():
    time.sleep(0.05)
print("last line", flush=True)
sys.exit(int(os.environ.get("CODE", "0")))
"""
WRITTEN = "line 5"
"""What the script writes before it waits at its gate."""


@pytest.fixture
def site(lepton_lab, tmp_path) -> Site:
    found = make_site(lepton_lab, tmp_path)
    found.project.write("train.py", SCRIPT)
    return found


def opened(site: Site) -> Path:
    """Opens the gate `go`."""
    gate = site.lab.volumes["lustre"] / "go"
    gate.touch()
    return gate


def attached(site: Site) -> Job:
    """The only job, at its gate, once the process that submitted it stays with it: signals end that one alone then."""
    [job] = until(lambda: site.lab.jobs, "the job")
    until(lambda: WRITTEN in job.text, "its words")
    until(lambda: site.record(job.name)["states"][-1]["state"], "its process", lambda state: state == "running")
    return job


def ended(site: Site, state: str, code: int | None) -> Job:
    """The only job, which is over everywhere, and on record as it ended."""
    [job] = site.lab.jobs
    record = site.record(job.name)
    assert (record["states"][-1]["state"], record["exit_code"]) == (state, code)
    assert site.lab.running == []
    return job


def verdict_on(site: Site, job: Job) -> dict[str, object]:
    """What `jobs diagnose` says."""
    found: dict[str, object] = site.nemotron("jobs", "diagnose", job.name, "--json").succeeds().json
    return found


def struck(site: Site, match: str, status: int) -> int:
    """How many calls were answered so."""
    return sum(call.status == status for call in site.lab.calls_of(match))


def test_a_token_that_expires_meanwhile(site):
    """It is said whose token it is; the job goes on, and with a new token its end is found."""
    site.lab.scenario(None, "expired_token", when=WRITTEN)
    old = site.lab.token
    told = site.run("one", *var(GATE="go", CODE=5))
    [job] = site.lab.jobs
    assert told.code == 2, told.err
    assert struck(site, "GET *", 401) > 0
    for word in ("HTTP 401", "LEPTON_WORKSPACE_TOKEN", f"{job.name} goes on: nemotron jobs logs -f {job.name}"):
        assert word in told.err
    assert old not in told.err + told.out
    assert "Traceback" not in told.err
    assert job.state == "Running"
    assert len(site.lab.running) == 1
    assert site.record(job.name)["states"][-1]["state"] in ("queued", "starting", "running")
    refused = site.nemotron("jobs", "wait", job.name)
    assert (refused.code, "HTTP 401" in refused.err) == (2, True), refused.err
    site.lab.renew_token()
    opened(site)
    waited = site.nemotron("jobs", "wait", job.name)
    assert waited.code == 5, waited.err
    ended(site, "failed", 5)
    assert site.nemotron("jobs", "logs", job.name).succeeds().out.count("last line") == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_attached_run_that_is_ended_from_outside(site, number, code):
    """The job goes on, and that is said."""
    process = site.started("run", "./train.py", "--run", "one", *var(GATE="go", CODE=5))
    attached(site)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    assert "goes on without this terminal" in err
    assert len(site.lab.running) == 1
    opened(site)
    assert site.nemotron("jobs", "wait", "last").code == 5
    ended(site, "failed", 5)


def test_a_token_that_is_not_allowed_to_submit(site):
    refusals = site.lab.fault("POST /jobs", "403", times=None)
    told = site.run("one")
    assert told.code == 2, told.err
    assert "HTTP 403" in told.err
    assert "Traceback" not in told.err
    assert struck(site, "POST /jobs", 403) == 1, "asking again would not help"
    assert site.lab.jobs == []
    names = [path.parent.name for path in (site.project.state / "jobs").glob("*/record.json")]
    assert [site.record(name)["states"][-1]["state"] for name in names] in ([], ["failed"]), "nothing is on its way"
    refusals.times = 0
    site.run("one", LEPTON_WORKSPACE_TOKEN=site.lab.other_token).refuses("HTTP 403", "LEPTON_WORKSPACE_TOKEN")
    assert site.lab.jobs == []
    assert site.lab.other_token not in told.err


def test_a_permission_that_is_lost_meanwhile(site):
    child = site.started("run", "./train.py", "--run", "one", *var(GATE="go", CODE=4))
    job = attached(site)
    refusals = site.lab.fault("GET *", "403", times=None)
    _, said = child.communicate(timeout=120)
    assert child.returncode == 2, said
    assert struck(site, "GET *", 403) > 0
    for word in ("HTTP 403", job.name):
        assert word in said
    assert "Traceback" not in said
    assert job.state == "Running"
    refusals.times = 0
    opened(site)
    assert site.nemotron("jobs", "wait", job.name).code == 4
    ended(site, "failed", 4)


def test_answers_that_take_their_time(site):
    slow = [site.lab.fault(match, "slow", seconds=1) for match in ("POST /jobs", "GET /jobs/*", "GET /logs")]
    told = site.run("one", *var(CODE=3))
    assert told.code == 3, told.err
    assert [fault.times for fault in slow] == [0, 0, 0], "all of them struck"
    assert [told.out.count(f"line {number}") for number in range(6)] == [1] * 6
    assert told.out.count("last line") == 1
    ended(site, "failed", 3)


def test_a_job_that_fails_before_it_was_seen_running(site):
    """Its own scripts ran, so that all of its lines are shown and its own exit code counts."""
    site.lab.scenario(None, "quickfail", run=())
    told = site.run("one", *var(CODE=7))
    assert told.code == 7, told.err
    assert told.out.count("last line") == 1
    job = ended(site, "failed", 7)
    assert job.attempts[0].scenario.visible is False
    assert verdict_on(site, job)["kind"] == "user code"


def test_a_container_that_fails_at_once(site):
    """Nothing of ours ran in it: what the platform has of its log is shown all the same."""
    site.lab.scenario(None, "quickfail")
    told = site.run("one")
    assert told.code == 1, told.err
    assert told.out.count("cannot import name: it failed at once\n") == 1
    assert "exit code not known yet" in told.err
    job = ended(site, "failed", None)
    job.ended -= 600  # it is over for ten minutes: nothing of it comes any more
    assert site.state(job.name) == "failed"
    verdict = verdict_on(site, ended(site, "failed", 1))
    assert verdict["kind"] == "user code"
    assert "cannot import name" in str(verdict["evidence"])


def test_a_job_that_is_killed_for_its_memory(site):
    """The kernel takes its command; our scripts say so, and Lepton's word says why."""
    site.lab.scenario(None, "oom", when=WRITTEN)
    told = site.run("one", *var(MEGABYTES=120, GATE="never"))
    assert told.code == 137, told.err
    assert WRITTEN in told.out
    job = ended(site, "failed", 137)
    assert job.replicas[0].pod.oom_killed
    assert "nemotron-end: " in job.text
    verdict = verdict_on(site, job)
    assert verdict["kind"] == "out of memory"
    assert verdict["remedy"]
    assert "memory" in told.err


@pytest.mark.parametrize(("kind", "code"), [("archived_ok", 0), ("archived_fail", 4), ("archived_silent", 6)])
def test_a_job_that_is_archived_as_soon_as_it_is_over(site, kind, code):
    site.lab.scenario(None, kind)
    told = site.run("one", *var(CODE=code))
    assert told.code == code, told.err
    assert told.out.count("last line") == 1
    assert ended(site, "failed" if code else "succeeded", code).state == "Archived"


def test_a_log_of_which_lines_are_lost(site):
    site.lab.scenario(None, "truncated_log", drop_every=0, drop_text="this one is dropped")
    told = site.run("one", *var(CODE=5))
    assert told.code == 5, told.err
    assert [f"line {number}" in told.out for number in range(6)] == [True, False] * 3
    assert "nemotron: Lepton has lost 3 or more lines of node 0's log\n" in told.out
    assert ended(site, "failed", 5).text.count("this one is dropped") == 3


def test_a_log_whose_end_is_lost(site):
    """The platform's word is taken for how it ended; that the log may not be whole is said."""
    site.lab.scenario(None, "truncated_log", drop_every=0, drop_text="nemotron-end")
    told = site.run("one")
    assert told.code == 0, told.err
    assert told.out.count("last line") == 1
    assert "the end of node 0's log never came: it may lack lines" in told.err
    ended(site, "succeeded", 0)


def test_a_state_that_nobody_knows(site):
    """It is shown with Lepton's own word, and the job is followed to its end."""
    site.lab.scenario(None, "unknown_state")
    child = site.started("run", "./train.py", "--run", "one", *var(GATE="go", CODE=6))
    [job] = until(lambda: site.lab.jobs, "the job")
    job.wait_for("Hibernating")
    until(lambda: WRITTEN in job.text, "its words")
    until(lambda: site.state(job.name), "a look at it", lambda state: state == "unknown")
    assert "Hibernating" in site.nemotron("jobs", "show", job.name).succeeds().out
    assert child.poll() is None
    opened(site)
    out, said = child.communicate(timeout=120)
    assert child.returncode == 6, said
    assert out.count("last line") == 1
    assert ended(site, "failed", 6).state == "Failed"
