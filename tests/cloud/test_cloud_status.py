"""How jobs of a platform are found: few by their ids, many by a list, and none is absent before a list says so too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from nemo_runspec.backends.cloud.connections import Page, every_row
from nemo_runspec.backends.cloud.states import StateMapping, lookup
from nemo_runspec.backends.cloud.status import BY_ID, SAMPLE, JobSource, find_jobs, missing, pick, sample_waiting
from nemo_runspec.transport.web import Malformed


class Jobs(JobSource):
    """A platform with jobs: `unlisted` in no list, `stray` not found by their ids, `odd` answered with noise."""

    platform, few = "the platform", 2

    def __init__(self, there: int, *, unlisted: set[str] = set(), stray: set[str] = set(), odd: set[str] = set()):  # noqa: B006
        self.rows = {f"id-{n}": {"id": f"id-{n}", "name": f"job-{n}"} for n in range(there)}
        self.unlisted, self.stray, self.odd = unlisted, stray, odd
        self.asked: list[str] = []

    def by_id(self, handle):
        self.asked.append(handle["id"])
        if handle["id"] in self.odd:
            raise Malformed("noise")
        return None if handle["id"] in self.stray else self.rows.get(handle["id"])

    def by_name(self, handle):
        return next((row for row in self.rows.values() if row["name"] == handle["name"]), None)

    def listed(self, handles: Mapping[int, Any]):
        self.asked.append("list")
        rows = (row for id, row in self.rows.items() if id not in self.unlisted)
        return pick(rows, handles, lambda row: row["id"])

    def elsewhere(self, handles: Mapping[int, Any]):
        self.asked.append("elsewhere")
        return {n: self.rows[handle["id"]] for n, handle in handles.items() if handle["id"] in self.rows}


def handles(*numbers: int) -> list[dict[str, Any]]:
    return [{"name": f"job-{n}", "id": f"id-{n}"} for n in numbers]


def test_few_are_asked_for_by_their_ids_and_many_by_a_list():
    few, many = Jobs(9), Jobs(9)
    assert {n: row["id"] for n, row in find_jobs(few, handles(3, 1))[0].items()} == {0: "id-3", 1: "id-1"}
    assert sorted(few.asked) == ["id-1", "id-3"]
    assert len(find_jobs(many, handles(*range(9)))[0]) == 9
    assert many.asked == ["list"]


def test_one_that_a_list_lacks_is_asked_for_by_its_id():
    source = Jobs(9, unlisted={"id-4"})
    found, odd = find_jobs(source, handles(*range(9)))
    assert (len(found), odd, source.asked) == (9, {}, ["list", "id-4"])


def test_one_that_its_id_does_not_lead_to_is_looked_for_elsewhere():
    source = Jobs(3, stray={"id-2"})
    found, odd = find_jobs(source, handles(2, 7))
    assert (list(found), odd) == ([0], {})
    assert missing(handles(7)[0], "it is gone", "").absent


def test_noise_is_no_absence():
    source = Jobs(1, odd={"id-0"})
    found, odd = find_jobs(source, handles(0))
    assert (found, odd) == ({}, {0: "noise"})
    status = missing(handles(0)[0], "it is gone", odd[0])
    assert (status.state, status.reason, status.absent) == ("unknown", "noise", False)


def test_the_same_job_may_be_asked_about_several_times():
    for source in (Jobs(9), Jobs(9, unlisted={"id-1"}), Jobs(9, unlisted={"id-1"}, odd={"id-1"})):
        found, odd = find_jobs(source, handles(1, 1, 1, 1))
        assert sorted([*found, *odd]) == [0, 1, 2, 3]


def test_of_very_many_that_a_list_lacks_some_are_left_for_later():
    source = Jobs(0)
    found, odd = find_jobs(source, handles(*range(BY_ID + 5)))
    assert (found, len(odd)) == ({}, 5)
    assert set(odd.values()) == {"the platform's list lacks it; its id is asked for with a later look"}


def test_a_job_without_an_id_is_looked_for_by_its_name():
    source = Jobs(3)
    found, _ = find_jobs(source, [{"name": "job-1"}, {"name": "job-9"}, {"name": "job-2", "id": "x", "doubt": True}])
    assert {n: row["id"] for n, row in found.items()} == {0: "id-1", 2: "id-2"}
    never = missing({"name": "job-9"}, "it is gone", "")
    assert (never.state, never.gone, never.exit_code) == ("failed", True, 1)


def test_a_sample_of_those_that_wait():
    states = dict(enumerate(["starting"] * 3 + ["queued"] * 40 + ["running"] * 5))
    found = sample_waiting(states, "starting", "queued")
    assert len(found) == SAMPLE and {0, 1, 2} < found and not found & set(range(43, 48))


def test_a_word_that_is_not_known_stays_unknown():
    states = {"Up": StateMapping("running")}
    assert lookup(states, "Up", "It").state == "running"
    assert lookup(states, "Hibernating", "It") == StateMapping(
        "unknown", reason="It says 'Hibernating', which this version does not know"
    )
    assert lookup(states, "", "It").state == "unknown"


@pytest.mark.parametrize("total", [7, None])
@pytest.mark.parametrize("again", [False, True])
def test_every_row_of_a_list_comes_once(total, again):
    """A server may give fewer rows a page than it was asked for, and repeat what has moved meanwhile."""
    rows = [{"id": str(n)} for n in range(7)]
    asked = []

    def ask(at: int) -> Page:
        asked.append(at)
        return Page(rows[max(0, at - again) : at + 2], at + 2, total)

    assert list(every_row(ask, 0, lambda row: row["id"])) == rows
    assert asked == ([0, 2, 4, 6] if total else [0, 2, 4, 6, 8])
