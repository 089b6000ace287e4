"""Which job or sweep a word means, `last` above all."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta, timezone

import pytest
from job_records import gone, record, stored
from sweep_records import sweep_of

from nemo_runspec.errors import UserError
from nemo_runspec.records import JobStore
from nemo_runspec.records.process import this_process
from nemo_runspec.sweeps.overview import Overview, find_job
from nemo_runspec.sweeps.store import SweepStore

ENDED = ("planned", "running", "succeeded")
SWEEP = "sweep-mine-1121-ssssssss"


@pytest.fixture
def jobs(tmp_path):
    return JobStore(tmp_path / "jobs")


@pytest.fixture
def sweeps(tmp_path):
    return SweepStore(tmp_path / "sweeps")


def put_sweep(sweeps, name=SWEEP, *members, age=0.0, **values):
    created = (datetime.now(timezone.utc) - timedelta(seconds=age)).isoformat(timespec="milliseconds")
    sweeps.write(dataclasses.replace(sweep_of(*members), group=name, created=created, **values))


def last(jobs, sweeps):
    return Overview(jobs, sweeps).one("last").name


def test_last_is_the_newest_of_jobs_and_sweeps(jobs, sweeps):
    stored(jobs, record("alone", ENDED, age=500))
    put_sweep(sweeps, age=400)
    assert last(jobs, sweeps) == SWEEP  # before its first job
    stored(jobs, record("member", ENDED, age=300, group=SWEEP))
    assert last(jobs, sweeps) == SWEEP
    stored(jobs, record("newer", ENDED, age=200))
    assert last(jobs, sweeps) == "newer"
    stored(jobs, record("member-2", ENDED, age=100, group=SWEEP))
    assert last(jobs, sweeps) == SWEEP


def test_an_input_that_a_sweep_makes_first_stands_for_the_sweep(jobs, sweeps):
    put_sweep(sweeps, age=400, launcher=this_process(), ended=None)
    stored(jobs, record("made", ("planned", "running"), age=300, launcher=this_process()))
    assert last(jobs, sweeps) == SWEEP
    stored(jobs, record("other", ENDED, age=200, launcher=gone()))
    assert last(jobs, sweeps) == "other"


def test_a_job_of_a_sweep_that_was_removed_is_a_job(jobs, sweeps):
    stored(jobs, record("member", ENDED, group="sweep-gone"))
    assert last(jobs, sweeps) == "member"


def test_where_one_job_is_needed(jobs, sweeps):
    put_sweep(sweeps, age=400)
    with pytest.raises(UserError, match=f"the newest is the sweep '{SWEEP}', and it has started no run"):
        Overview(jobs, sweeps).one_job("last")
    for n in range(2):
        stored(jobs, record(f"member-{n}", ENDED, age=300 - n, group=SWEEP))
    assert Overview(jobs, sweeps).one_job("last").name == "member-1"
    with pytest.raises(UserError, match="'sweep-mine' is a sweep of 2 jobs, and one is needed"):
        Overview(jobs, sweeps).one_job("sweep-mine")
    assert Overview(jobs, sweeps).one_job("member-0").name == "member-0"


def test_names_and_beginnings(jobs, sweeps):
    put_sweep(sweeps, age=400)
    put_sweep(sweeps, "sweep-mine-1121-tttttttt", age=300)
    stored(jobs, record("sweep-like-a-job", ENDED, age=200))
    stored(jobs, record("member", ENDED, age=100, group=SWEEP))
    overview = Overview(jobs, sweeps)
    assert overview.one("ssssssss").name == SWEEP
    with pytest.raises(UserError, match="'sweep-mine' is the beginning of 2 sweeps: "):
        overview.one("sweep-mine")
    with pytest.raises(UserError, match="'sweep-' is the beginning of 3 jobs and sweeps: "):
        overview.meant(["sweep-"])
    meant = overview.meant([SWEEP, "member", "last", "sweep-like"])
    assert [entry.name for entry in meant] == [SWEEP, "member", "sweep-like-a-job"]
    assert [entry.name for entry in overview.with_members(meant)] == ["member", "sweep-like-a-job"]


def test_nothing_yet(jobs, sweeps):
    with pytest.raises(UserError, match="no job is recorded yet"):
        Overview(jobs, sweeps).one("last")
    with pytest.raises(UserError, match="no job is recorded yet"):
        find_job(jobs, "last")
