"""A job that runs on Lepton, and answers that say that it does not."""

from __future__ import annotations

import pytest
from absence_suite import SCRIPT, Absences, Away
from labs.pods import needs_mounts
from lepton_jobs import api_of, handle_of, new_name, planted
from lepton_project import make_site, var
from support import finish

from nemo_runspec.backends.cloud.api import page_rows
from nemo_runspec.backends.lepton.api import is_job
from nemo_runspec.backends.lepton.status import poll
from nemo_runspec.transport.web import Malformed


@pytest.fixture
def away(lepton_lab, tmp_path) -> Away:
    site = make_site(lepton_lab, tmp_path)
    site.project.write("train.py", SCRIPT.format(gate="/mnt/lustre/go"))
    return Away(
        site,
        lepton_lab,
        path="/jobs/{id}",
        listed="/jobs",
        batch=lambda code: site.run("one", *var(CODE=code), mode="--batch").succeeds().out.strip(),
        attached=lambda code: site.started("run", "./train.py", "--run", "one", *var(CODE=code)),
        opened=lambda: (lepton_lab.volumes["lustre"] / "go").touch(),
        alive=lambda: len(lepton_lab.running),
        ended=finish,
    )


@needs_mounts
class TestAbsences(Absences):
    """On Lepton."""


@pytest.mark.parametrize("kind", ["404", "garbage", "empty", "null", "object", "word"])
def test_a_list_that_is_none_says_nothing_of_anybody(lepton_lab, kind):
    handles = planted(lepton_lab, 6, "Running")
    lepton_lab.fault("GET /jobs", kind)
    with pytest.raises(Malformed, match="answer"):
        poll(api_of(lepton_lab), handles)
    assert {each.state for each in poll(api_of(lepton_lab), handles)} == {"running"}


@pytest.mark.parametrize("kind", ["emptied", "lacking", "list"])
def test_a_page_that_lacks_jobs_is_made_up_by_their_ids(lepton_lab, kind):
    handles = planted(lepton_lab, 6, "Running")
    lepton_lab.fault("GET /jobs", kind, times=None)
    assert [each.state for each in poll(api_of(lepton_lab), handles)] == ["running"] * 6


@pytest.mark.parametrize(
    ("answer", "rows"),
    [
        ({"jobs": None, "total": 0}, []), ({"jobs": [{}]}, [{}]), ({"items": []}, []), ([], []),
        ({"jobs": 3}, None), ({"jobs": [3]}, None), ({"jobs": [{"status": "Running"}]}, None),
        ({"a": [], "b": []}, None), ({"message": "try later"}, None), ("[]", None), (None, None),
    ],
)  # fmt: skip
def test_what_is_a_page(answer, rows):
    """A workspace without jobs may say so in several ways; nothing else is one."""
    assert page_rows(answer, "jobs", is_job) == rows


def test_an_empty_page_that_says_how_many_there_are(lepton_lab):
    """It is not a whole answer."""
    handles = planted(lepton_lab, 6, "Running")
    page = lepton_lab.fault("GET /jobs", "rowless")
    with pytest.raises(Malformed, match="says that there are 6 jobs"):
        poll(api_of(lepton_lab), handles)
    assert page.times == 0


@pytest.mark.parametrize("kind", ["garbage", "null", "list", "object", "404"])
@pytest.mark.parametrize("others", [0, 5])
def test_one_odd_answer_is_of_one_job_alone(lepton_lab, kind, others):
    handles = planted(lepton_lab, 2 + others, "Running")
    lepton_lab.fault(f"GET /jobs/{handles[0]['id']}", kind)
    lepton_lab.fault("GET /jobs", "emptied", times=None)
    seen = poll(api_of(lepton_lab), handles)
    assert [each.state for each in seen] == ["unknown"] + ["running"] * (1 + others)
    assert seen[0].absent == (kind == "404")


def test_a_thousand_jobs_that_are_gone_are_not_asked_for_at_once(lepton_lab):
    gone = [handle_of(lepton_lab, name, id=f"{name}-abcd") for name in (new_name() for _ in range(300))]
    seen = poll(api_of(lepton_lab), [*gone, *planted(lepton_lab, 3, "Running")])
    assert {each.state for each in seen[:300]} == {"unknown"}
    assert sum(each.absent for each in seen) == 64
    assert [each.state for each in seen[300:]] == ["running"] * 3
    assert len(lepton_lab.calls) < 140


@needs_mounts
@pytest.mark.parametrize("kind", ["garbage", "null", "rowless", "404"])
def test_nothing_is_submitted_twice_for_a_stray_answer(away, lepton_lab, kind):
    """The list that says whether a job is there is asked for again."""
    lepton_lab.fault("POST /jobs", "reset_after")
    lepton_lab.fault("GET /jobs", kind, times=2)
    name = away.batch(0)
    assert [job.name for job in lepton_lab.jobs] == [name]
