"""Jobs that wait for too long, that are tried again, that are stopped: what becomes of them, and what is said."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from labs.lepton.scenario import MOUNT_MISSING, Timings
from labs.pods import needs_mounts
from lepton_project import Site, make_site, var
from support import call, enter
from waiting import LONG, until

from nemo_runspec.remote import cancel

pytestmark = needs_mounts

PROFILES = """
[strict]
extends = "one"
queue_timeout = "1h"
pull_timeout = "1h"
start_timeout = "1h"
on_timeout = "stop"

[wide]  # each on a node of its own
extends = "strict"
nodes = 2
gpus_per_node = 8

[patient]
extends = "strict"
on_timeout = "warn"

[again]
extends = "one"
retries = 1
avoid_failed_nodes = true
"""


@pytest.fixture
def site(lepton_lab, tmp_path) -> Site:
    found = make_site(lepton_lab, tmp_path)
    found.profile(PROFILES)
    # What is not stuck takes no time: it must not be what the short limits here strike.
    lepton_lab.timings = Timings(queueing=0, pulling=0, starting=0, settling=0)
    return found


def attempts(site: Site) -> list[str]:
    """States of the lab's jobs."""
    return [job.state for job in site.lab.jobs]


@pytest.mark.parametrize(
    ("scenario", "key", "kind"),
    [
        ("nocapacity", "queue_timeout", "capacity"),
        ("imagepull_denied", "pull_timeout", "image"),
        ("badnode", "start_timeout", "node"),
    ],
)
def test_a_job_whose_time_is_up_is_stopped_and_diagnosed(site, scenario, key, kind):
    site.lab.scenario(None, scenario)
    told = site.run("strict", f"run.env.{key}=1s")
    assert told.code == 124, told.err
    assert "diagnosis" in told.err
    assert (attempts(site), site.lab.running) == (["Stopped"], [])
    verdict = site.nemotron("jobs", "diagnose", "last", "--json").succeeds().json
    assert (verdict["state"], verdict["exit_code"], verdict["kind"]) == ("failed", 124, kind)
    assert verdict["reason"].startswith(f"{key}: it ")
    assert verdict["evidence"]
    assert verdict["remedy"]


def test_a_job_one_of_whose_pods_does_not_start_is_starting(site):
    """The other pod runs, and waits for it."""
    site.lab.scenario(None, "badnode")
    name = site.run("wide", mode="--batch").succeeds().out.strip()
    shown = until(
        lambda: site.nemotron("jobs", "status", name, COLUMNS="200").succeeds().out,
        "the pod that runs",
        lambda shown: "1 of 2 ready" in shown,
    )
    assert "its storage cannot be mounted (1 of 2 nodes)" in shown
    record = site.record(name)
    assert [step["state"] for step in record["states"]][-1] == "starting"
    assert record["facts"]["platform_state"] == "Running", "as Lepton calls it"
    assert record["facts"]["phase"] == "start" and record["facts"]["phase_since"], "its time runs"
    site.nemotron("jobs", "stop", name, "--grace", "0").succeeds()


def test_a_job_one_of_whose_pods_does_not_start_is_stopped_in_time(site):
    site.lab.scenario(None, "badnode")
    told = site.run("wide", "run.env.start_timeout=5s")
    assert told.code == 124, told.err
    assert "its storage cannot be mounted (1 of 2 nodes)" in told.err
    assert (attempts(site), site.lab.running) == (["Stopped"], [])
    assert site.nemotron("jobs", "diagnose", "last", "--json").succeeds().json["kind"] == "node"


def test_a_pod_that_is_not_ready_for_a_while_does_not_make_a_job_start_again(site):
    name = site.run("wide", *var(STRUCK=0), mode="--batch").succeeds().out.strip()
    until(lambda: site.state(name), "running", lambda state: state == "running")
    [job] = site.lab.jobs
    until(lambda: all(replica.ready for replica in job.replicas), "both pods")
    job.replicas[1].ready = False
    job.replicas[1].says(MOUNT_MISSING)
    assert site.state(name) == "running"
    facts = site.record(name)["facts"]
    assert facts["replicas"] == "1 of 2 ready" and "phase" not in facts  # so that no time runs
    site.nemotron("jobs", "stop", name, "--grace", "0").succeeds()


def test_a_warning_stops_nothing(site):
    """Detached: whoever asks sees it, and why; then it is cancelled, and what Lepton kept is gone."""
    site.lab.scenario(None, "badnode")
    name = site.run("patient", "run.env.start_timeout=1s", mode="--batch").succeeds().out.strip()
    [job] = site.lab.jobs
    shown = until(
        lambda: site.nemotron("jobs", "status", COLUMNS="200").succeeds().out,
        "the warning",
        lambda shown: "for longer than start_timeout (1 s)" in shown,
    )
    assert "0 of 1 ready" in shown.splitlines()[1]
    assert job.state == "Starting"
    verdict = site.nemotron("jobs", "diagnose", name).succeeds().out
    assert f"{name}: starting" in verdict
    assert "kind        node" in verdict
    replica = site.nemotron("jobs", "replicas", name, "--json").succeeds().json[0]
    assert (replica["index"], replica["state"], replica["node"] != "") == (0, "ConfigError", True)
    assert (replica["cpus"], replica["memory_mb"]) == (2.0, 8192), "as the platform says"
    assert "8 GB" in site.nemotron("jobs", "replicas", name, COLUMNS="200").succeeds().out
    assert "FailedMount" in site.nemotron("jobs", "events", name).succeeds().out
    told = site.nemotron("jobs", "cancel", name).succeeds().out
    assert f"{name}: cancelled, exit code 143" in told
    assert f"{name}: deleted: job {job.id} of the Lepton workspace {site.lab.workspace}" in told
    assert site.record(name)["states"][-1]["state"] == "cancelled"
    assert "is cancelled and has no replicas" in site.nemotron("jobs", "replicas", name).succeeds().out


def test_many_jobs_are_held_against_the_limit_of_what_they_wait_for(site):
    """They pull their image, and are asked about all at once: that they start late is not what they are stopped for."""
    site.lab.scenario(None, "stuck_pull", times=6)
    limits = ("run.env.pull_timeout=1h", "run.env.start_timeout=1s", "run.env.on_timeout=stop")
    swept = "++run.env.env_vars.NUMBER=1,2,3,4,5,6"
    site.nemotron("run", "./train.py", "-m", swept, "--batch", "one", *limits).succeeds()
    until(lambda: attempts(site) == ["Starting"] * 6, "the start of all of them")
    for _ in range(4):
        site.nemotron("jobs", "status").succeeds()
        time.sleep(0.5)
    assert attempts(site) == ["Starting"] * 6
    assert "pulling the image" in site.nemotron("jobs", "status", COLUMNS="200").succeeds().out
    site.nemotron("jobs", "stop", "last", "--grace", "0").succeeds()


def test_an_evicted_job_is_tried_again(site):
    site.lab.scenario(None, "evicted", when="token 0")
    told = site.run("again", *var(STRUCK=0)).succeeds()
    assert "attempt 2 of 2 after: " in told.err
    assert attempts(site) == ["Failed", "Completed"]
    assert told.out.count("token 0\n") == 2, "the log of both"
    assert "attempt 1" in site.nemotron("jobs", "show", "last").succeeds().out


def test_it_is_tried_again_once_however_many_ask_and_whoever_is_killed(site):
    site.lab.scenario(None, "evicted", when="token 0")
    site.lab.fault(match="POST /jobs", kind="reset_after", after=1)
    name = site.run("again", *var(STRUCK=0), mode="--batch").succeeds().out.strip()
    until(lambda: attempts(site) == ["Failed"], "its eviction")
    asking = [site.started("jobs", "status", name) for _ in range(4)]
    until(lambda: len(site.lab.jobs) == 2, "the second submission")
    asking[0].kill()
    asking[0].communicate()
    assert [process.wait(120) for process in asking[1:]] == [0, 0, 0]
    site.nemotron("jobs", "wait", name).succeeds()
    assert attempts(site) == ["Failed", "Completed"]


def test_a_node_that_failed_is_avoided_and_the_attempts_end(site):
    site.lab.scenario(None, "nodefail", times=2)
    told = site.run("again", *var(STRUCK="0,1"))
    assert told.code not in (0, 124)
    assert attempts(site) == ["Failed", "Failed"]
    record = site.record(site.lab.jobs[0].name)
    assert record["diagnosis"]["kind"] == "node"
    [bad] = record["attempt"]["avoid"]
    assert bad not in record["facts"]["nodes"].split(",")


def test_a_job_that_is_stuck_on_a_bad_node_is_tried_on_another(site):
    """It would stay there for ever: once its time is up it is stopped, and starts elsewhere."""
    site.lab.scenario(None, "badnode")
    # Not shorter: the second attempt has the same limit, and must come to its start on a busy machine.
    told = site.run("again", *var(SECONDS_TO_RUN=1), "run.env.start_timeout=20s").succeeds()
    assert "attempt 2 of 2 after: a node is not fit for it" in told.err
    assert attempts(site) == ["Stopped", "Completed"]
    [bad] = site.record(site.lab.jobs[0].name)["attempt"]["avoid"]
    assert bad not in site.record(site.lab.jobs[0].name)["facts"]["nodes"].split(",")


def test_a_job_that_hangs_is_ended_and_not_tried_again(site):
    limit = "run.env.stall_timeout=20s"  # in which its Python has to come to its words
    told = site.run("again", *var(SECONDS_TO_RUN=600), limit)
    assert (told.code, attempts(site)) == (124, ["Failed"])
    verdict = site.nemotron("jobs", "diagnose", "last", "--json").succeeds().json
    assert (verdict["exit_code"], verdict["kind"]) == (124, "stall")
    assert verdict["what"].endswith("it was at train.py:4"), verdict


def test_what_fails_by_itself_is_not_tried_again(site):
    assert site.run("again", *var(CODE=9)).code == 9
    assert attempts(site) == ["Failed"]


def test_stop_keeps_what_cancel_deletes(site):
    name = site.run("again", *var(SECONDS_TO_RUN=600), mode="--batch").succeeds().out.strip()
    assert site.nemotron("jobs", "stop", name).succeeds().out.startswith(f"{name}: cancelled, exit code 143")
    assert (attempts(site), site.lab.running) == (["Stopped"], []), "and it is not tried again"
    assert site.record(name)["cancellation"]["by"].startswith("nemotron jobs stop")
    assert deletions(site) == []
    again = site.nemotron("jobs", "cancel", name, "--json").succeeds().json[0]
    assert again["deleted"][0].startswith(f"job {site.lab.jobs[0].id} of the Lepton workspace")
    assert len(deletions(site)) == 1


@pytest.mark.parametrize("command", ["stop", "cancel"])
def test_a_job_that_its_platform_does_not_stop(site, monkeypatch, command):
    """To stop it keeps what there is, and says what ends it; to cancel it does that, with the log here before."""
    name = site.run("again", *var(SECONDS_TO_RUN=600), mode="--batch").succeeds().out.strip()
    [job] = site.lab.jobs
    job.wait_for("Running")
    until(lambda: "token" in job.text, "its words")
    site.lab.fault("PATCH /jobs/*", "says", times=None, body=b"{}")  # says yes, and does nothing
    monkeypatch.setattr("nemo_runspec.backends.lepton.client._TO_END", 1.0)
    monkeypatch.setattr(cancel, "_AFTER_HARD", 2.0)
    monkeypatch.setattr(cancel, "until_over", lambda *job: cancel._wait(*job, LONG, time.sleep))  # once it is deleted
    enter(site.project, monkeypatch, **site.lab.environment())
    told = call("jobs", command, "--grace", "0", name)
    if command == "stop":
        assert (told.code, deletions(site), job.state) == (2, [], "Running")
        assert f"{name}: its platform has not stopped it; nemotron jobs cancel deletes it there" in told.err
        return
    assert f"{name}: cancelled, exit code 143" in told.succeeds().out
    assert f"{name}: deleted: job {job.id} of the Lepton workspace" in told.out
    assert (len(deletions(site)), site.lab.running) == (1, [])
    assert "token 0" in site.nemotron("jobs", "logs", name).succeeds().out


@pytest.mark.parametrize("command", ["status", "diagnose", "events", "replicas"])
def test_who_waits_for_a_slow_platform_is_told_so(site, monkeypatch, command):
    name = site.run("one", *var(SECONDS_TO_RUN=600), mode="--batch").succeeds().out.strip()
    enter(site.project, monkeypatch, **site.lab.environment())
    monkeypatch.setattr("nemotron.cli.commands.jobs.messages._SLOW", 60.0)
    assert "no answer yet" not in call("jobs", command, name).succeeds().err
    monkeypatch.setattr("nemotron.cli.commands.jobs.messages._SLOW", 0.2)
    site.lab.fault("GET *", "slow", seconds=2)
    assert call("jobs", command, name).succeeds().err.count("lepton: no answer yet; still asking") == 1


def deletions(site: Site) -> Sequence[object]:
    return [call for call in site.lab.calls if call.method == "DELETE" and "/jobs/" in call.path]


def test_what_other_executors_do_not_have(site):
    site.nemotron("run", "./train.py").succeeds()
    for errand in ("events", "replicas"):  # of which a message names where else to look
        site.nemotron("jobs", errand, "last").refuses(
            f"executor 'local', which knows no {errand}", "nemotron jobs logs"
        )
    assert "nothing is wrong" in site.nemotron("jobs", "diagnose", "last").succeeds().out
    assert "--resolve: executor 'local' has nothing" in site.nemotron("run", "./train.py", "-d", "--resolve").err
    site.run("one", "--resolve").refuses("--resolve belongs to --dry-run")
