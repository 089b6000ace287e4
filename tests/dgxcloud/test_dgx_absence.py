"""A job that runs on run:ai, and answers that say that it does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from absence_suite import SCRIPT, Absences, Away
from dgx_project import make_site, var
from labs.pods import needs_mounts
from labs.runai.server import RunaiLab
from runai_workloads import api_of, handle, workload

from nemo_runspec.backends.dgxcloud.status import Workloads
from nemo_runspec.backends.provider import JobRef
from nemo_runspec.transport.web import Malformed


@pytest.fixture
def away(runai_lab, project) -> Iterator[Away]:
    with make_site(runai_lab, project, SCRIPT.format(gate="/data/go")) as site:
        yield Away(
            site,
            runai_lab,
            path="/workloads/{id}",
            listed="/workloads",
            batch=lambda code: site.run(*var(CODE=code), mode="--batch").succeeds().out.strip(),
            attached=lambda code: site.started(*var(CODE=code)),
            opened=site.opened,
            alive=lambda: len(runai_lab.pods.running),
            ended=site.end_of,
        )


@needs_mounts
class TestAbsences(Absences):
    """On run:ai."""


def running(lab: RunaiLab, many: int) -> list[dict[str, object]]:
    """Handles of workloads that run."""
    api_of(lab)
    return [handle(lab, made.name, id=made.id) for made in (workload(lab, f"j-{n}", "Running") for n in range(many))]


@pytest.mark.parametrize("kind", ["404", "garbage", "empty", "null", "object", "word"])
def test_a_list_that_is_none_says_nothing_of_anybody(runai_lab, kind):
    handles = running(runai_lab, 6)
    runai_lab.fault("GET /workloads", kind)
    with pytest.raises(Malformed, match="answer"):
        Workloads(api_of(runai_lab)).statuses(handles)
    assert {each.state for each in Workloads(api_of(runai_lab)).statuses(handles)} == {"running"}


@pytest.mark.parametrize("kind", ["emptied", "lacking", "list"])
def test_a_page_that_lacks_jobs_is_made_up_by_their_ids(runai_lab, kind):
    handles = running(runai_lab, 6)
    runai_lab.fault("GET /workloads", kind, times=None)
    assert [each.state for each in Workloads(api_of(runai_lab)).statuses(handles)] == ["running"] * 6


@pytest.mark.parametrize("kind", ["garbage", "null", "list", "object", "404"])
@pytest.mark.parametrize("others", [0, 5])
def test_one_odd_answer_is_of_one_job_alone(runai_lab, kind, others):
    handles = running(runai_lab, 2 + others)
    runai_lab.fault(f"GET /workloads/{handles[0]['id']}", kind)
    runai_lab.fault("GET /workloads", "emptied", times=None)
    seen = Workloads(api_of(runai_lab)).statuses(handles)
    assert [each.state for each in seen] == ["unknown"] + ["running"] * (1 + others)
    assert seen[0].absent == (kind == "404")


def test_a_workload_that_was_deleted_is_lost_at_once(runai_lab):
    """That is no absence: run:ai says so itself."""
    [known] = running(runai_lab, 1)
    runai_lab.jobs[0].deleted = 1.0
    [seen] = Workloads(api_of(runai_lab)).statuses([JobRef(known)])
    assert (seen.state, seen.absent) == ("lost", False)


def test_a_job_that_is_asked_about_several_times_at_once(runai_lab):
    """Handles of one workload, which the list lacks and whose id leads to nothing that makes sense."""
    handles = running(runai_lab, 1) * 5
    runai_lab.fault("GET /workloads", "emptied", times=None)
    runai_lab.fault(f"GET /workloads/{handles[0]['id']}", "garbage", times=None)
    assert {each.state for each in Workloads(api_of(runai_lab)).statuses(handles)} == {"unknown"}
    runai_lab.fault(f"GET /workloads/{handles[0]['id']}", "404", times=None)
    assert {each.state for each in Workloads(api_of(runai_lab)).statuses(handles)} == {"unknown"}
