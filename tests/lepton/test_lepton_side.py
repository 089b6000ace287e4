"""What Lepton tells beside a job's own state may fail in every way: it decorates what is known and never hides it."""

from __future__ import annotations

import time

import pytest
from labs.lepton.lab import LeptonLab
from labs.pods import needs_mounts
from lepton_jobs import api_of, planted, run
from lepton_project import Site, make_site, var
from test_lepton_look import end
from waiting import until

from nemo_runspec.backends.cloud import optional_requests
from nemo_runspec.backends.lepton import logs
from nemo_runspec.backends.lepton.logs import new_chunks
from nemo_runspec.backends.lepton.status import poll

KINDS = ("500", "403", "401", "404", "garbage", "halved", "reset")
"""How an endpoint fails for as long as it likes."""

SIDES = ("GET /jobs/*/events", "GET /jobs/*/replicas", "GET /logs")


@pytest.fixture(autouse=True)
def short_of_patience(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(optional_requests, "SECONDS", 0.3)
    monkeypatch.setattr("nemo_runspec.backends.lepton.status.Jobs.pauses", (0.0, 0.2))
    monkeypatch.setattr("nemo_runspec.backends.cloud.renewal.PAUSES", (0.05, 0.05))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("state", ["Queueing", "Starting", "Running", "Completed", "Failed", "Stopped"])
def test_the_state_is_the_jobs_own(lepton_lab: LeptonLab, kind: str, state: str):
    """All side endpoints fail at once; what could not be asked is said, and is nothing that the state depends on."""
    [handle] = planted(lepton_lab, 1, state)
    before = poll(api_of(lepton_lab), [handle])[0]
    for match in SIDES:
        lepton_lab.fault(match, kind, times=None)
    [seen] = poll(api_of(lepton_lab), [handle])
    assert seen.state == before.state
    told = str(seen.facts.unanswered or "")
    if kind != "404":  # that one says that there is none
        assert told.startswith("Lepton did not tell its ")
        assert ("replicas" in told) == (state not in ("Stopped",) or "replicas" in told)
    assert seen.facts.platform_state == state


@needs_mounts
@pytest.mark.parametrize("kind", ["500", "403", "garbage", "halved"])
@pytest.mark.parametrize("code", [0, 7])
def test_an_exit_code_that_cannot_be_read_yet_is_not_known_yet(lepton_lab: LeptonLab, kind: str, code: int):
    """Never fixed at 1; a later look has it."""
    job, handle = run(lepton_lab, end(code))
    job.wait_for("Completed", "Failed")
    fault = lepton_lab.fault("GET /logs", kind, times=None)
    [seen] = poll(api_of(lepton_lab), [handle])
    assert (seen.state, seen.exit_code) == (("failed", None) if code else ("succeeded", 0))
    assert seen.facts.unread
    fault.times = 0
    [seen] = poll(api_of(lepton_lab), [handle])
    assert (seen.exit_code, seen.facts.unread) == (code, "")


@needs_mounts
@pytest.mark.parametrize("skew", [-7200.0, 7200.0])
@pytest.mark.parametrize("nodes", [1, 2])
def test_a_clock_of_its_own(lepton_lab: LeptonLab, skew: float, nodes: int):
    """Two hours before ours or behind: the whole log, the exit code, times that fit together, and no waiting for more.

    A process that has never asked before reads it too: nothing has told it the time.
    """
    lepton_lab.skew = skew
    script = f'for i in 1 2 3; do echo "line $i"; sleep 0.1; done; {end(7)}'
    job, handle = run(lepton_lab, script, nodes=nodes)
    handle = {**handle, "since": job.created + skew}
    offsets: dict[str, int] = {}
    text = b""
    while job.state not in ("Completed", "Failed"):
        text += _new(lepton_lab, handle, offsets)
        time.sleep(0.05)
    text += _new(lepton_lab, handle, offsets)
    assert [text.count(b"line %d" % i) for i in (1, 2, 3)] == [nodes] * 3
    [seen] = poll(api_of(lepton_lab), [handle])
    assert (seen.state, seen.exit_code) == ("failed", 7)
    assert seen.started is not None and seen.ended is not None
    assert -1.5 <= seen.ended - seen.started < 60
    assert abs(seen.ended - (time.time() + skew)) < 60
    assert logs.last_lines(api_of(lepton_lab), handle, 10).count(b"nemotron-end") >= 1


def _new(lab: LeptonLab, handle: dict[str, object], offsets: dict[str, int]) -> bytes:
    text = b""
    for piece in new_chunks(api_of(lab), handle, offsets, 1 << 20):
        offsets[piece.path], text = piece.cursor, text + piece.content
    return text


@needs_mounts
@pytest.mark.parametrize("skew", [-7200.0, 7200.0])
def test_a_job_whose_end_is_long_ago_by_its_own_clock_is_not_waited_for(
    lepton_lab: LeptonLab, skew: float, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("nemo_runspec.backends.lepton.status.Jobs.pauses", (0.0, 0.01, 0.01))
    lepton_lab.skew = skew
    job, handle = run(lepton_lab, "exit 9")
    job.wait_for("Failed")
    [seen] = poll(api_of(lepton_lab), [handle])
    assert (seen.exit_code, bool(seen.facts.unread)) == (None, True), "it has ended just now"
    job.ended = (job.ended or 0.0) - 600
    asked = len(lepton_lab.calls_of("GET /logs"))
    [seen] = poll(api_of(lepton_lab), [handle])
    assert (seen.exit_code, seen.facts.unread) == (1, "")
    assert len(lepton_lab.calls_of("GET /logs")) == asked + 1


# From the outside


@pytest.fixture
def site(lepton_lab: LeptonLab, tmp_path) -> Site:
    return make_site(lepton_lab, tmp_path)


@needs_mounts
def test_an_attached_run_ends_with_its_job_whatever_fails_beside_it(site: Site):
    """Events, pods and log fail from the start to the end: the end is seen, and what is missing is said."""
    site.hurry()
    for match, kind in zip(SIDES, ("500", "garbage", "403"), strict=True):
        site.lab.fault(match, kind, times=None)
    told = site.run("one", *var(CODE=7))
    [job] = site.lab.jobs
    assert job.state == "Failed"
    assert told.code == 1, told.err
    assert "failed" in told.err and "exit code not known yet" in told.err
    assert "Lepton did not tell its " in told.err
    assert "Traceback" not in told.err
    record = site.record(job.name)
    assert (record["states"][-1]["state"], record["exit_code"]) == ("failed", None)
    site.lab.quiet_faults()
    shown = site.nemotron("jobs", "status", job.name, "--json").succeeds().json[0]
    assert (shown["state"], shown["exit_code"]) == ("failed", 7)
    assert site.nemotron("jobs", "wait", job.name).code == 7
    assert site.nemotron("jobs", "logs", job.name).succeeds().out.count("token") == 1


@needs_mounts
def test_waiting_ends_with_the_job_and_asks_once_more(site: Site):
    site.hurry()
    name = site.run("one", *var(CODE=5), mode="--batch").succeeds().out.strip()
    for match in SIDES:
        site.lab.fault(match, "500", times=None)
    assert site.nemotron("jobs", "wait", name).code == 1
    assert site.record(name)["exit_code"] is None
    site.lab.quiet_faults()
    assert site.nemotron("jobs", "wait", name).code == 5
    assert site.record(name)["exit_code"] == 5


@needs_mounts
def test_a_status_without_names_asks_about_what_could_not_be_read(site: Site):
    """Once, together with what goes on: one question. Once it is read the job is not mentioned again."""
    site.hurry()
    going = site.run("one", *var(GATE="go"), mode="--batch").succeeds().out.strip()
    names = [site.run("one", *var(CODE=code), mode="--batch").succeeds().out.strip() for code in (4, 5)]
    for match in SIDES:
        site.lab.fault(match, "500", times=None)
    site.nemotron("jobs", "wait", *names)
    assert [site.record(name)["exit_code"] for name in names] == [None, None]
    told = site.nemotron("jobs", "status").succeeds().out
    assert all(name in told for name in (going, *names)) and told.count("exit code not known yet") == 2
    site.lab.quiet_faults()
    site.lab.calls.clear()
    shown = {job["name"]: job for job in site.nemotron("jobs", "status", "--json").succeeds().json}
    assert [shown[name]["exit_code"] for name in names] == [4, 5]
    asked = [call.path.rpartition("/")[2] for call in list(site.lab.calls) if call.method == "GET"]
    ids = [site.record(name)["handle"]["id"] for name in (going, *names)]
    assert [asked.count(id) for id in ids] == [1, 1, 1], asked
    assert [job["name"] for job in site.nemotron("jobs", "status", "--json").succeeds().json] == [going]
    site.opened(going)


@needs_mounts
@pytest.mark.parametrize("status", ["401", "403"])
def test_one_refusal_ends_no_attached_run(site: Site, status: str):
    """Whatever was asked: it is asked again, with the login as it is then."""
    child = site.started("run", "./train.py", "--run", "one", *var(GATE="go", CODE=3))
    [job] = until(lambda: site.lab.jobs, "the job")
    until(lambda: "token" in job.text, "its words")
    until(lambda: site.record(job.name)["states"][-1]["state"], "its process", lambda state: state == "running")
    for match in ("GET /jobs/*", *SIDES):
        site.lab.fault(match, status)
    site.opened(job.name)
    _, err = child.communicate(timeout=120)
    assert child.returncode == 3, err
    assert all(fault.times == 0 for fault in site.lab._faults), "all of them struck"


@needs_mounts
def test_a_token_that_is_renewed_meanwhile(site: Site, tmp_path):
    """The login file has the new one: nobody notices."""
    folder = tmp_path / "cache"
    folder.mkdir()
    file = folder / "workspace_info.yaml"

    def written() -> None:
        token = site.lab.token
        file.write_text(
            f"current_workspace: {site.lab.workspace}\n"
            f'workspaces: {{{site.lab.workspace}: {{url: "{site.lab.url}", auth_token: {token}}}}}\n'
        )

    written()
    own = {"LEPTON_CACHE_DIR": str(folder), "LEPTON_WORKSPACE_TOKEN": "", "LEPTON_WORKSPACE_URL": ""}
    child = site.started("run", "./train.py", "--run", "one", *var(GATE="go", CODE=3), **own)
    [job] = until(lambda: site.lab.jobs, "the job")
    until(lambda: "token" in job.text, "its words")
    until(lambda: site.record(job.name)["states"][-1]["state"], "its process", lambda state: state == "running")
    site.lab.renew_token()
    written()
    site.opened(job.name)
    _, err = child.communicate(timeout=120)
    assert child.returncode == 3, err


@needs_mounts
def test_a_submission_whose_answer_has_no_id(site: Site):
    """Its name is none: the job is looked for by it and adopted. There is one job, and it can be stopped."""
    site.lab.fault("POST /jobs", "changed", change=_without_id)
    name = site.run("one", *var(GATE="go"), mode="--batch").succeeds().out.strip()
    [job] = site.lab.jobs
    assert site.record(name)["handle"]["id"] == job.id
    site.nemotron("jobs", "cancel", "--grace", "0", name).succeeds()
    assert site.lab.running == []


@needs_mounts
def test_a_submission_whose_answer_has_no_id_and_whose_job_is_nowhere(site: Site):
    """It is not called submitted."""
    site.hurry()
    site.lab.fault("POST /jobs", "says", times=None, body=b'{"metadata": {"name": "x"}}')
    told = site.run("one", mode="--batch")
    assert told.code == 2, told.err
    assert told.out == ""
    assert site.lab.jobs == []


def _without_id(answer: dict[str, dict[str, object]]) -> object:
    return {**answer, "metadata": {key: value for key, value in answer["metadata"].items() if key != "id"}}


@needs_mounts
@pytest.mark.parametrize("kind", ["garbage", "403", "500"])
def test_a_deletion_that_is_none(site: Site, kind: str):
    """A gateway's page deletes nothing; that the job is still there is said, and is no success."""
    site.hurry()
    name = site.run("one", *var(GATE="go"), mode="--batch").succeeds().out.strip()
    fault = site.lab.fault("DELETE /jobs/*", kind, times=None)
    told = site.nemotron("jobs", "cancel", "--grace", "0", name)
    assert told.code == 2, told.err
    assert "was not deleted" in told.err
    assert "with its logs and events" not in told.out
    fault.times = 0
    assert [job.deleted for job in site.lab.jobs] == [False]


@needs_mounts
def test_a_deletion_that_a_gateway_answers_once(site: Site):
    name = site.run("one", *var(GATE="go"), mode="--batch").succeeds().out.strip()
    site.lab.fault("DELETE /jobs/*", "garbage")
    told = site.nemotron("jobs", "cancel", "--grace", "0", name).succeeds()
    assert "with its logs and events" in told.out + told.err
    assert [job.deleted for job in site.lab.jobs] == [True]


@pytest.mark.slow
@pytest.mark.parametrize("status", ["401", "403"])
def test_permissions_that_are_not_told(site: Site, status: str):
    """That nobody knows is said before the submission, and keeps nobody from it."""
    site.lab.fault("GET /storage-permission/*", status, times=None)
    told = site.run("one", mode="--batch")
    assert told.code == 0, told.err
    assert "warning: not known: " in told.err
    assert f"HTTP {status}" in told.err
