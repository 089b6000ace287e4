"""Waiting for jobs, and the exit code that ends with."""

from __future__ import annotations

import pytest
from job_records import gone, record, stored

from nemo_runspec.errors import UserError
from nemo_runspec.records import JobStore
from nemo_runspec.records.process import this_process
from nemo_runspec.remote.wait import exit_code_of, wait_for

RUNNING = ("planned", "running")


@pytest.fixture
def store(tmp_path):
    return JobStore(tmp_path / "jobs")


@pytest.mark.parametrize(
    ("state", "code", "wanted"),
    [
        ("succeeded", 0, 0), ("succeeded", None, 0), ("failed", 3, 3), ("failed", None, 1), ("failed", 0, 1),
        ("cancelled", 143, 143), ("cancelled", None, 1), ("lost", None, 1), ("unknown", None, 1),
    ],
)  # fmt: skip
def test_the_exit_code(state, code, wanted):
    assert exit_code_of(record("job", (*RUNNING, state), exit_code=code)) == wanted


def test_it_waits_until_all_are_over(store):
    made = [stored(store, record(f"job-{n}", RUNNING, launcher=this_process())) for n in range(3)]
    seen = []

    def end_one(found):
        seen.append((found.name, found.state))
        running = [r for r in made if (r.name, "running") in seen and (r.name, "failed") not in seen]
        if len(running) == 3 or found.state == "failed":
            for left in running[:1]:
                store.finish(left, "failed", exit_code=int(left.name[-1]))

    found = wait_for(store, [r.name for r in made], seen=end_one)
    assert [(r.state, r.exit_code) for r in found] == [("failed", n) for n in range(3)]
    assert len(seen) == 6


def test_it_ends_with_a_job_that_is_lost(store):
    stored(store, record("job", RUNNING, launcher=gone()))
    assert [r.state for r in wait_for(store, ["job"])] == ["lost"]


def test_the_time_is_up(store):
    stored(store, record("job", RUNNING, launcher=this_process()))
    assert [r.state for r in wait_for(store, ["job"], seconds=0.05)] == ["running"]
    assert [r.state for r in wait_for(store, ["job"], seconds=0)] == ["running"]


def test_a_job_that_is_removed_meanwhile_is_not_taken_for_another(store):
    stored(store, record("job-1", RUNNING, launcher=this_process()))
    stored(store, record("job-11", (*RUNNING, "succeeded"), exit_code=0))

    def remove(seen):
        store.remove(seen.name, lambda found: None)

    with pytest.raises(UserError, match="job 'job-1' cannot be read: it has no record"):
        wait_for(store, ["job-1"], seconds=600, seen=remove)
