"""A job that is submitted again, forgotten, or asked about: what Lepton's errands do with a handle."""

from __future__ import annotations

import json
import time

import pytest
from labs.lepton import routes_jobs
from lepton_jobs import api_of, body_of, handle_of, new_name, planted
from waiting import until

from nemo_runspec.backends.lepton import submit
from nemo_runspec.backends.lepton.api import LeptonApi
from nemo_runspec.backends.lepton.client import LeptonProvider
from nemo_runspec.backends.lepton.submit import submit_once
from nemo_runspec.errors import UserError
from nemo_runspec.transport.web import Refused

H100 = "ng-h100-4f2a"


@pytest.fixture
def provider(lepton_lab, monkeypatch):
    for name, value in lepton_lab.environment().items():
        monkeypatch.setenv(name, value)
    return LeptonProvider()


@pytest.fixture
def job(lepton_lab, tmp_path):
    """The handle of a job of two nodes, and its folder, in which lies what was sent."""
    lepton_lab.scenario(None, "nocapacity", times=None)
    name = new_name()
    body = body_of(name, nodes=2, affinity={"allowed_dedicated_node_groups": [H100]})
    (tmp_path / "job.json").write_text(json.dumps(body))
    id = api_of(lepton_lab).create(body)["metadata"]["id"]
    return handle_of(lepton_lab, name, id=id, nodes=2, attempt=0, attempts=3), tmp_path


def test_another_attempt_is_the_same_job_elsewhere(lepton_lab, provider, job):
    handle, folder = job
    second = provider.resubmit(provider.next_attempt(handle, 1), ["node-ip-h100-node-1", "h100-node-3"], folder)
    third = provider.resubmit(provider.next_attempt(second, 2), [], folder)
    first_job, second_job, third_job = lepton_lab.jobs
    assert [second["id"], third["id"]] == [second_job.id, third_job.id]
    assert (second["attempt"], third["attempt"]) == (1, 2)
    assert third["earlier"] == [handle["id"], second["id"]]
    spec = dict(second_job.body["spec"])
    assert spec.pop("affinity")["allowed_nodes_in_node_group"] == ["h100-node-0", "h100-node-2"]
    assert spec.pop("envs") == [{"name": "NEMOTRON_POD_ATTEMPT", "value": "1"}]
    assert spec == {key: value for key, value in first_job.body["spec"].items() if key != "affinity"}
    assert second_job.body["metadata"]["labels"]["nemotron-attempt"] == "1"
    assert "allowed_nodes_in_node_group" not in third_job.body["spec"]["affinity"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["reset_after", "500_after", "cut", "garbage"])
def test_another_attempt_is_made_once(lepton_lab, provider, job, kind):
    handle, folder = job
    lepton_lab.fault("POST /jobs", kind)
    second = provider.resubmit(provider.next_attempt(handle, 1), [], folder)
    assert [each.id for each in lepton_lab.jobs] == [handle["id"], second["id"]]


@pytest.mark.parametrize(("lists", "made"), [(1, 1), (3, 1), (4, 2)])
def test_another_attempt_that_somebody_else_may_have_sent_is_made_once(
    lepton_lab, provider, job, monkeypatch, lists, made
):
    """A stray list that lacks it is no reason to make it again; where all of them do, the younger one is taken back as
    soon as both are seen."""
    monkeypatch.setattr(submit, "_DOUBTS", (0.0, 0.0, 0.0))
    handle, folder = job
    second = provider.resubmit(provider.next_attempt(handle, 1), [], folder)
    time.sleep(0.01)  # Lepton tells milliseconds, in one of which both may have been made
    lepton_lab.fault("GET /jobs", "emptied", times=lists)
    found = provider.resubmit(provider.next_attempt(handle, 1), [], folder, resumed=True)
    assert found["id"] == second["id"]
    ours = lepton_lab.jobs[1:]
    assert len(ours) == made
    assert [each.id for each in ours if each.wish != "delete"] == [second["id"]]


def test_too_few_nodes_are_left(lepton_lab, provider, job):
    handle, folder = job
    provider.resubmit(provider.next_attempt(handle, 1), [f"h100-node-{number}" for number in range(3)], folder)
    assert "allowed_nodes_in_node_group" not in lepton_lab.jobs[-1].body["spec"]["affinity"]


def test_what_was_sent_is_gone(provider, job, tmp_path_factory):
    with pytest.raises(UserError, match="what was sent to Lepton is not kept"):
        provider.resubmit(provider.next_attempt(job[0], 1), [], tmp_path_factory.mktemp("empty"))


def test_what_is_forgotten_is_said(lepton_lab, provider):
    [handle] = planted(lepton_lab, 1, "Completed")
    assert provider.delete_remote(handle) == [
        f"job {handle['id']} of the Lepton workspace ws-lab, with its logs and events"
    ]
    assert provider.delete_remote(handle) == []
    assert provider.status([handle])[0].absent


class Clock:
    """Only sleep moves it: how many questions fit into a time is not up to the machine."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.mark.parametrize("times", [2, None])
def test_a_job_that_does_not_stop_is_told_again_and_keeps_its_record(lepton_lab, provider, job, monkeypatch, times):
    monkeypatch.setattr("nemo_runspec.backends.lepton.client.time", Clock())
    lepton_lab.fault("PATCH /jobs/*", "says", times=times, body=b"{}")  # says yes, and does nothing
    provider.stop([job[0]], "me", hard=True)
    assert len(lepton_lab.calls_of("PATCH *")) > 2
    assert lepton_lab.calls_of("DELETE *") == []
    if times:
        until(lambda: lepton_lab.jobs[0].state == "Stopped", "its end")


def test_one_refused_stop_keeps_the_others_from_nothing(lepton_lab, provider, monkeypatch):
    handles = planted(lepton_lab, 3, "Running")
    lepton_lab.fault(f"PATCH /jobs/{handles[1]['id']}", "403", times=None)
    monkeypatch.setattr("nemo_runspec.backends.cloud.renewal.PAUSES", (0.0,))  # a refusal may be a stray one
    with pytest.raises(Refused, match=rf"1 of 3 jobs could not be stopped \({handles[1]['name']}\): Lepton refuses"):
        provider.stop(handles, "me")
    assert [job.wish for job in lepton_lab.jobs] == ["stop", "", "stop"]


def test_replicas_and_events_of_a_job_that_waits(lepton_lab, provider, job):
    handle, _ = job
    until(lambda: len(provider.events(handle)) == 2, "what keeps both of them")
    replicas = provider.replicas(handle)
    assert [(each.index, each.problem) for each in replicas] == [(0, "no capacity"), (1, "no capacity")]
    events = provider.events({**handle, "id": None})  # found by its name
    assert {event.reason for event in events} == {"FailedScheduling"}
    [piece] = provider.read_log(handle, {}, 1000, platform=True)
    assert piece.content.decode().count("FailedScheduling") == len(events)
    assert provider.read_log(handle, {piece.path: piece.cursor}, 1000, platform=True) == []


def test_two_of_a_doubtful_submission(lepton_lab, provider):
    """However they came about: the oldest is the job, and the other does not run."""
    name = new_name()
    first, second = (api_of(lepton_lab).create(body_of(name))["metadata"]["id"] for _ in range(2))
    lepton_lab.jobs[0].created -= 5  # Lepton tells milliseconds, in one of which both may have been made
    [seen] = provider.status([handle_of(lepton_lab, name)])
    assert seen.facts.id == first
    assert [job.id for job in lepton_lab.jobs if job.wish == "delete"] == [second]


class LateApi(LeptonApi):
    """A request that broke is served after all, just before the next one."""

    def create(self, payload):
        if self.web.calls > 2:
            super().create(payload)
            time.sleep(0.01)  # Lepton tells milliseconds, in one of which both may have been made
        return super().create(payload)


@pytest.mark.slow
def test_a_request_that_is_served_before_the_next_one(lepton_lab):
    name = new_name()
    lepton_lab.fault("POST /jobs", "reset")
    api = LateApi(api_of(lepton_lab).login)
    handle = submit_once(api, handle_of(lepton_lab, name), body_of(name), lambda _: None)
    first, second = lepton_lab.jobs
    assert handle["id"] == first.id
    assert (first.wish, second.wish) == ("", "delete")


@pytest.mark.slow
def test_a_request_that_is_served_when_the_job_is_submitted_already(lepton_lab, provider):
    name = new_name()
    lepton_lab.scenario(None, "nocapacity", times=None)
    lepton_lab.fault("POST /jobs", "reset")
    api = api_of(lepton_lab)
    handle = submit_once(api, handle_of(lepton_lab, name), body_of(name), lambda _: None)
    api.create(body_of(name))
    first, second = lepton_lab.jobs
    second.created = first.created - 5  # Lepton says when the request came, not when it was served
    [seen] = provider.status([handle])
    assert (seen.state, seen.facts.id, handle["id"]) == ("queued", first.id, first.id)
    assert (first.wish, second.wish) == ("", "delete")


def test_an_answer_without_an_id(lepton_lab, monkeypatch):
    """Such as a gateway's own; the job is looked for, as after a broken connection."""
    answers = iter([{"jobs": []}])
    real = routes_jobs.job_json
    monkeypatch.setattr(routes_jobs, "job_json", lambda *job: next(answers, None) or real(*job))
    name = new_name()
    handle = submit_once(api_of(lepton_lab), handle_of(lepton_lab, name), body_of(name), lambda _: None)
    [job] = lepton_lab.jobs
    assert handle["id"] == job.id
