"""run:ai's API: one token, lists to their end, questions for many jobs, submissions that requests break under."""

from __future__ import annotations

import json
import threading

import pytest
from labs.pods import needs_mounts
from labs.runai.server import RunaiLab
from runai_workloads import SECRET, api_of, handle, payload, profile, workload
from support import Project, call

from nemo_runspec.backends.cloud import connections
from nemo_runspec.backends.dgxcloud import api as api_module
from nemo_runspec.backends.dgxcloud.api import connect
from nemo_runspec.backends.dgxcloud.client import DgxCloudProvider
from nemo_runspec.backends.dgxcloud.prepare import secret_facts
from nemo_runspec.backends.dgxcloud.resubmit import next_attempt, resubmit
from nemo_runspec.backends.dgxcloud.status import Workloads
from nemo_runspec.backends.dgxcloud.submit import submit
from nemo_runspec.backends.dgxcloud.token import Token
from nemo_runspec.backends.provider import JobRef
from nemo_runspec.errors import UserError
from nemo_runspec.transport.web import NotKnown, Refused


def test_a_token_serves_until_it_is_about_to_expire():
    now, given = [1000.0], []

    def fetch() -> dict[str, object]:
        given.append(f"t{len(given)}")
        return {"accessToken": given[-1], "expiresIn": 600}

    token = Token(fetch, lambda: now[0])
    assert [token.value(), token.value()] == ["t0", "t0"]
    now[0] += 530
    assert token.value() == "t0"
    now[0] += 15  # a tenth of its life, or a minute, before its end
    assert token.value() == "t1"
    token.refused("t0")  # another thread's, renewed since
    assert token.value() == "t1"
    token.refused("t1")
    assert token.value() == "t2"


def test_one_token_for_many_requests_and_one_more_when_it_is_not_taken(runai_lab: RunaiLab):
    for _ in range(5):
        api_of(runai_lab).projects()
    assert len(runai_lab.calls_of("POST /token")) == 1
    runai_lab.expire_tokens()
    api_of(runai_lab).projects()
    assert len(runai_lab.calls_of("POST /token")) == 2


def test_threads_share_a_token(runai_lab: RunaiLab):
    threads = [threading.Thread(target=lambda: api_of(runai_lab).projects()) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(runai_lab.calls_of("POST /token")) == 1


def test_a_token_that_is_never_taken_ends_at_once(runai_lab: RunaiLab):
    runai_lab.fault("GET *", "401", times=None)
    with pytest.raises(Refused) as caught:
        api_of(runai_lab).projects()
    assert caught.value.remedy
    assert len(runai_lab.calls_of("GET *")) == 2


@pytest.mark.parametrize("status", [400, 401])
def test_wrong_credentials_are_said_without_them(runai_lab: RunaiLab, status: int):
    runai_lab.bad_credentials_status = status
    with pytest.raises(UserError, match="does not accept") as caught:
        connect(handle(runai_lab), {"client_secret": "wr0ng-secret"}).projects()
    assert "wr0ng-secret" not in str(caught.value)
    tries = 3 if status == 400 else 1
    assert len(runai_lab.calls_of("POST /token")) == tries, "a 400 may mean that the fields have other names here"


@pytest.mark.parametrize("key", ["base_url", "kube"])
@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("http://run.example.com/api/v1", "plain HTTP"), ("http://127.run.example.com", "plain HTTP"),
        ("http://10.0.0.1:8080", "plain HTTP"), ("ftp://127.0.0.1", "no URL"), ("run.example.com", "no URL"),
        ("https://run.example.com", ""), ("http://localhost:1", ""), ("http://127.0.0.2:1", ""), ("http://[::1]:1", ""),
    ],
)  # fmt: skip
def test_secrets_go_over_tls_or_stay_on_this_machine(runai_lab: RunaiLab, key: str, url: str, word: str):
    job = {**handle(runai_lab), key: url}
    if not word:
        connect(job, {"client_secret": "hidden"})
        return
    with pytest.raises(UserError, match=word) as caught:
        connect(job, {"client_secret": "hidden"})
    assert url in caught.value.what


def test_the_project_is_the_one_of_that_name(runai_lab: RunaiLab):
    """The lab's is not on the first page, and others' names begin as it does."""
    api = api_of(runai_lab)
    assert api.project(runai_lab.project)["name"] == runai_lab.project
    with pytest.raises(UserError, match=r"no project 'speech'; there are: .*team-00") as caught:
        api.project("speech")
    assert caught.value.remedy


def test_lists_are_read_to_their_end(runai_lab: RunaiLab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(api_module, "PAGE", 10)
    names = [row["name"] for row in api_of(runai_lab).projects()]
    assert names == [project.name for project in runai_lab.projects]
    assert len(runai_lab.calls_of("GET /org-unit/projects")) == -(-len(names) // 10)


def test_a_thousand_jobs_are_few_requests(runai_lab: RunaiLab):
    made = [workload(runai_lab, f"job-{n}", "Running") for n in range(1000)]
    handles = [handle(runai_lab, item.name, id=item.id) for item in made]
    seen = Workloads(api_of(runai_lab)).statuses(handles)
    assert {each.state for each in seen} == {"running"}
    assert [each.facts.id for each in seen] == [item.id for item in made]
    assert len(runai_lab.calls) <= 4
    print(f"requests for 1,000 jobs: {len(runai_lab.calls)}")


@pytest.mark.parametrize("others", [0, 5])
@pytest.mark.parametrize(
    ("phase", "state", "code", "waits"),
    [
        ("Creating", "queued", None, "queue"), ("Pending", "queued", None, "queue"),
        ("Initializing", "starting", None, "pull"), ("Resuming", "queued", None, "queue"),
        ("Running", "running", None, ""), ("Degraded", "starting", None, "pull"), ("Stopping", "running", None, ""),
        ("Stopped", "cancelled", 143, ""), ("Failed", "failed", 1, ""), ("Completed", "succeeded", 0, ""),
        ("Unknown", "unknown", None, ""), ("Napping", "unknown", None, ""),
    ],
)  # fmt: skip
def test_phases(runai_lab: RunaiLab, phase: str, state: str, code: int | None, waits: str, others: int):
    """One job is asked about as itself, several are in a list, and both say the same."""
    made = [workload(runai_lab, f"job-{n}", phase) for n in range(1 + others)]
    for seen in Workloads(api_of(runai_lab)).statuses([handle(runai_lab, item.name, id=item.id) for item in made]):
        assert (seen.state, seen.exit_code, seen.facts.phase) == (state, code, waits)
        assert seen.facts.platform_state == phase
        assert phase != "Napping" or "Napping" in seen.reason


@pytest.mark.parametrize("others", [0, 3])
def test_jobs_that_are_not_there(runai_lab: RunaiLab, others: int):
    more = [handle(runai_lab, f"job-{n}", id=workload(runai_lab, f"job-{n}", "Running").id) for n in range(others)]
    never, deleted = handle(runai_lab, "never"), workload(runai_lab, "deleted", "Running", deleted=1.0)
    finished = workload(runai_lab, "finished", "Completed", deleted=1.0)
    asked = [never, handle(runai_lab, "deleted", id=deleted.id), handle(runai_lab, "finished", id=finished.id)]
    api = api_of(runai_lab)
    found = [Workloads(api).statuses([*more, JobRef(each)])[-1] for each in asked]
    assert [each.state for each in found] == ["failed", "lost", "succeeded"]
    assert [each.gone for each in found] == [True, False, False]
    stopped = Workloads(api).statuses([*more, JobRef(asked[1], "me")])[-1]
    assert (stopped.state, stopped.exit_code) == ("cancelled", 143)


def test_a_job_that_never_came_there_is_gone(runai_lab: RunaiLab):
    api_of(runai_lab)
    (seen,) = DgxCloudProvider().status([handle(runai_lab, "never")])
    assert (seen.gone, seen.state, seen.exit_code) == (True, "failed", 1)
    DgxCloudProvider().stop([handle(runai_lab, "never")], "me")
    DgxCloudProvider().delete_files(handle(runai_lab, "never"))


def test_a_job_without_an_id_is_found_by_its_whole_name(runai_lab: RunaiLab):
    workload(runai_lab, "job-12", "Running")
    made = workload(runai_lab, "job-1", "Running")
    (seen,) = Workloads(api_of(runai_lab)).statuses([handle(runai_lab, "job-1")])
    assert (seen.state, seen.facts.id) == ("running", made.id)


@needs_mounts
@pytest.mark.parametrize("fault", ["500", "500_after", "reset", "reset_after", "503", "429", "garbage", "cut"])
def test_a_job_is_submitted_once_whatever_breaks(runai_lab: RunaiLab, fault: str):
    runai_lab.fault("POST /workloads/*", fault)
    job = handle(runai_lab)
    found = submit(api_of(runai_lab), job, payload(runai_lab, "job-1"), sleep=lambda _: None)
    (made,) = runai_lab.jobs
    assert found["id"] == made.id
    assert submit(api_of(runai_lab), job, payload(runai_lab, "job-1"))["id"] == made.id
    assert len(runai_lab.jobs) == 1


@needs_mounts
def test_a_job_that_was_taken_without_an_id_is_found_once_the_list_has_it(runai_lab: RunaiLab):
    """A list may lag: neither no answer's id nor a name that is taken means that it was not submitted."""
    runai_lab.fault("POST /workloads/*", "202_after")
    runai_lab.fault("GET /workloads", "emptied", times=2)
    found = submit(api_of(runai_lab), handle(runai_lab), payload(runai_lab, "job-1"), sleep=lambda _: None)
    assert found["id"] == runai_lab.workload("job-1").id
    assert [call.status for call in runai_lab.calls_of("POST /workloads/*")] == [202, 409]


@needs_mounts
def test_a_job_whose_name_is_taken_and_that_no_list_has_is_not_called_refused(runai_lab: RunaiLab):
    runai_lab.fault("POST /workloads/*", "202_after")
    runai_lab.fault("GET /workloads", "200", times=None)
    with pytest.raises(NotKnown):
        submit(api_of(runai_lab), handle(runai_lab), payload(runai_lab, "job-1"), sleep=lambda _: None)


def test_a_submission_that_stays_unknown_says_so(runai_lab: RunaiLab):
    runai_lab.fault("POST /workloads/*", "reset", times=None)
    with pytest.raises(NotKnown):
        submit(api_of(runai_lab), handle(runai_lab), payload(runai_lab, "job-1"), sleep=lambda _: None)
    assert not runai_lab.jobs


def test_a_refusal_names_every_reason(runai_lab: RunaiLab):
    wrong = payload(runai_lab, "job-1", gpus=8, compute={"gpuDevicesRequest": -1})
    with pytest.raises(Refused, match=r"gpus.*compute.gpuDevicesRequest"):
        submit(api_of(runai_lab), handle(runai_lab), wrong)


@needs_mounts
def test_a_job_is_tried_again_elsewhere_under_another_name(runai_lab: RunaiLab, tmp_path):
    first = payload(runai_lab, "job-1", environmentVariables=[{"name": "NEMOTRON_POD_ATTEMPT", "value": "0"}])
    (tmp_path / "job.json").write_text(json.dumps(first))
    api, job = api_of(runai_lab), handle(runai_lab)
    job = submit(api, job, first)
    second = resubmit(api, next_attempt(job, 1), ["gpu-node-1"], tmp_path)
    assert (second["name"], second["workload"], second["attempt"]) == ("job-1", "job-1-r1", 1)
    made = runai_lab.workload("job-1-r1")
    assert second["id"] == made.id != job["id"]
    assert made.spec["environmentVariables"][0]["value"] == "1"
    rule = made.spec["nodeAffinityRequired"]["nodeSelectorTerms"][0]["matchExpressions"]
    assert rule == [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["gpu-node-1"]}]


def test_credentials_are_the_clusters_secrets(runai_lab: RunaiLab):
    kept = runai_lab.credential("hub", {"HF_TOKEN": "hidden"})
    api, said = api_of(runai_lab), []
    assert secret_facts(api, ["hub/HF_TOKEN"], runai_lab.mine.id, said.append) == {"SECRET:hub": kept}
    assert secret_facts(api, [], "", said.append) == {}
    with pytest.raises(UserError, match="no credential 'hug'; there are: hub") as caught:
        secret_facts(api, ["hug/HF_TOKEN"], runai_lab.mine.id, said.append)
    assert caught.value.remedy == "did you mean 'hub'?"
    runai_lab.fault("GET /asset/*", "403", times=None)
    assert secret_facts(api, ["hub/X"], runai_lab.mine.id, said.append) == {"SECRET:hub": "genericsecret-hub"}
    assert len(said) == 1


def test_a_wrong_base_url_is_named_soon(runai_lab: RunaiLab, project: Project, monkeypatch: pytest.MonkeyPatch):
    """Nobody waits for a minute before anything was submitted."""
    for module in ("api", "client"):
        monkeypatch.setattr(f"nemo_runspec.backends.dgxcloud.{module}.AT_ONCE", 0.2)
    profile(project, runai_lab)
    project.write("train.py", "pass\n")
    wrong = "http://127.0.0.1:1/api/v1"
    project.write("env.toml", project.env_file.read_text().replace(runai_lab.base_url, wrong))
    monkeypatch.setenv(SECRET, runai_lab.client_secret)
    for words in (("--run", "dgx"), ("--run", "dgx", "-d", "--resolve")):
        call("run", "./train.py", *words).refuses(
            "run:ai does not answer", f"see that base_url in the profile, {wrong},"
        )
    assert {key[-1] for key in connections.kept() if key[0] == wrong} == {0.2}
