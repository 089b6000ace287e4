"""Questions about many jobs: what those that start wait for, how those that are over ended, and what is not asked."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from labs.runai.model import LabPod, Workload
from labs.runai.server import RunaiLab
from runai_workloads import api_of, handle, workload

from nemo_runspec.backends.cloud.status import SAMPLE
from nemo_runspec.backends.dgxcloud.client import DgxCloudProvider
from nemo_runspec.backends.dgxcloud.pods import namespace_of
from nemo_runspec.backends.dgxcloud.status import Workloads
from nemo_runspec.backends.provider import JobRef
from nemo_runspec.transport.web import Refused

PULLING = ("Pulling", 'Pulling image "lab/any"')
PULLED = ("Pulled", 'Successfully pulled image "lab/any"')
REFUSED = ("Failed", "Failed to pull image: 401 Unauthorized")
UNREACHED = ("Failed", "Failed to pull image: dial tcp: lookup nvcr.io on 10.96.0.10:53: server misbehaving")
TRIED = (("Failed", "Error: ErrImagePull"), ("BackOff", "Back-off pulling image"))
STARTED = ("Started", "Started container")


def starting(lab: RunaiLab, name: str, *pods: list[tuple[str, str]]) -> Workload:
    """A workload that is starting; for each of its pods what the cluster has told, the oldest first."""
    made = workload(lab, name, "Initializing")
    for number, told in enumerate(pods):
        pod = LabPod(f"{name}-worker-{number}", "worker", number, name, "lab/any")
        for reason, message in told:
            made.tell(reason, message, pod)
            time.sleep(0.002)  # events are in the order of their milliseconds
    return made


def of(lab: RunaiLab, *made: Workload) -> list[dict[str, object]]:
    return [handle(lab, item.name, id=item.id) for item in made]


@pytest.mark.parametrize("others", [0, 4])
def test_a_job_that_starts_is_told_from_one_that_pulls(runai_lab: RunaiLab, others: int):
    made = {
        "pull": starting(runai_lab, "a", [PULLING]),
        "start": starting(runai_lab, "b", [PULLING, PULLED]),
        "pull ": starting(runai_lab, "c", [PULLING], [PULLING, PULLED, STARTED]),
        "pull  ": starting(runai_lab, "d", [PULLING, ("Failed", "Error: ImagePullBackOff")]),
        "pull   ": starting(runai_lab, "f", [PULLING, REFUSED, PULLING]),
        "pull    ": starting(runai_lab, "h", [PULLING, UNREACHED, *TRIED]),
        "pull     ": starting(runai_lab, "i", [PULLING, UNREACHED, *TRIED, PULLING, REFUSED, *TRIED]),
        "start  ": starting(runai_lab, "g", [PULLING, REFUSED, PULLED]),
        "start ": starting(runai_lab, "e", [PULLED, ("BackOff", "Back-off restarting failed container")]),
    }
    more = of(runai_lab, *(workload(runai_lab, f"job-{n}", "Running") for n in range(others)))
    for phase, item in made.items():
        seen = Workloads(api_of(runai_lab)).statuses([*of(runai_lab, item), *more])[0]
        assert (seen.state, seen.facts.phase) == ("starting", phase.strip()), item.name
        assert seen.facts.failing == (item.name in ("d", "f", "i")), "it has failed, and will again"


@pytest.mark.parametrize("others", [0, 4])
def test_a_job_that_has_its_nodes_starts_whatever_it_is_called(runai_lab: RunaiLab, others: int):
    """What was of its pod before that one got its node is history: pods of an attempt may have the names of others."""
    made = workload(runai_lab, "job-x", "Pending")
    pod = LabPod("job-x-0-0", "", 0, "job-x", "lab/any", node="gpu-node-1")
    made.pods = [pod]
    for reason, message in (STARTED, ("Failed", "Error: ErrImagePull"), ("Scheduled", "to gpu-node-1")):
        made.tell(reason, message, pod)
        time.sleep(0.002)
    asked = of(runai_lab, made, *(workload(runai_lab, f"job-{n}", "Running") for n in range(others)))
    seen = Workloads(api_of(runai_lab)).statuses(asked)[0]
    assert (seen.state, seen.facts.phase, seen.facts.nodes) == ("starting", "pull", "gpu-node-1")
    assert not seen.facts.failing
    made.tell("FailedMount", "mount point not found", pod, kind="Warning")
    seen = Workloads(api_of(runai_lab)).statuses(asked)[0]
    assert (seen.state, seen.facts.phase) == ("starting", "start")
    assert "mount point not found" in seen.facts.waiting
    pod.node = None
    seen = Workloads(api_of(runai_lab)).statuses(asked)[0]
    assert (seen.state, seen.facts.phase) == ("queued", "queue")


def test_of_many_jobs_that_start_some_are_asked_about_and_the_others_keep_their_phase(runai_lab: RunaiLab):
    made = [starting(runai_lab, f"job-{n}", [PULLED]) for n in range(40)]
    found = Workloads(api_of(runai_lab)).statuses(of(runai_lab, *made))
    assert {seen.state for seen in found} == {"starting"}
    phases = [seen.facts.phase for seen in found]
    assert (phases.count("start"), phases.count(None)) == (SAMPLE, 40 - SAMPLE)
    assert len(runai_lab.calls_of("GET /workloads/*/events")) == SAMPLE


def test_events_that_are_not_answered_leave_the_phase_open(runai_lab: RunaiLab):
    runai_lab.fault("GET /workloads/*/events", "403", times=None)
    (seen,) = Workloads(api_of(runai_lab)).statuses(of(runai_lab, starting(runai_lab, "job-1", [PULLING])))
    assert (seen.state, seen.facts.phase) == ("starting", None)


@pytest.mark.parametrize(("ago", "slept"), [(3600.0, 0.0), (1.0, 3.5)])
def test_last_words_are_waited_for_once_and_only_of_jobs_that_ended_just_now(
    runai_lab: RunaiLab, tmp_path: Path, ago: float, slept: float
):
    made = [workload(runai_lab, f"job-{n}", "Completed", completed=time.time() - ago) for n in range(5)]
    api = api_of(runai_lab)
    handles = [{**each, "here": str(tmp_path / "jobs" / str(each["name"]))} for each in of(runai_lab, *made)]
    pauses: list[float] = []
    found = Workloads(api).with_ends(handles, Workloads(api).statuses(handles), sleep=pauses.append)
    assert [seen.exit_code for seen in found] == [0] * 5
    assert sum(pauses) == slept


def test_one_refused_stop_keeps_the_others_from_nothing(runai_lab: RunaiLab):
    api_of(runai_lab)
    made = [workload(runai_lab, f"job-{n}", "Running") for n in range(3)]
    runai_lab.fault(f"POST */{made[1].id}/suspend", "403", times=None)
    with pytest.raises(Refused, match=r"1 of 3 jobs could not be stopped \(job-1\): run:ai does not let") as caught:
        DgxCloudProvider().stop(of(runai_lab, *made), "me")
    assert caught.value.status == 403
    assert [item.phase for item in made] == ["Stopped", "Running", "Stopped"]


def test_the_namespace_is_the_projects_own():
    """An administrator may have chosen it; a workload says it where the handle does not."""
    assert namespace_of({"project": "p", "namespace": "ours"}, {"namespace": "theirs"}) == "ours"
    assert namespace_of({"project": "p"}, {"namespace": "theirs"}) == "theirs"
    assert namespace_of({"project": "p"}) == "runai-p"


@pytest.mark.parametrize("others", [0, 4])
@pytest.mark.parametrize("time", ["0001-01-01T00:00:00Z", "", "null", {}, 0])
def test_a_deletion_at_no_time_is_none(runai_lab: RunaiLab, others: int, time: object):
    """Servers written in Go say a time that is not set as the year 1."""
    made = workload(runai_lab, "job-x", "Running")
    more = (workload(runai_lab, f"job-{n}", "Running") for n in range(others))
    asked = [JobRef(each, "me") for each in of(runai_lab, made, *more)]
    runai_lab.fault("GET /workloads*", "changed", times=None, change=lambda answer: _deleted(answer, time))
    assert {seen.state for seen in Workloads(api_of(runai_lab)).statuses(asked)} == {"running"}


def _deleted(answer: Any, time: object) -> Any:
    rows = answer.get("workloads")
    return (
        {**answer, "workloads": [{**row, "deletedAt": time} for row in rows]} if rows else {**answer, "deletedAt": time}
    )
