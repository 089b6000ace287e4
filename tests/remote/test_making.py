"""Which jobs that make inputs end with the jobs that need them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from job_records import gone, record, stored

from nemo_runspec.jobs import JobRecord, JobStore
from nemo_runspec.jobs.process import process_of
from nemo_runspec.remote.input_jobs import AWAITED, MADE, MADE_FOR, NEEDS, awaited, only_for, relate, unneeded

RUNNING = ("planned", "submitting", "queued", "running")


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore(tmp_path / "jobs")


def job(store: JobStore, name: str, *states: str, **handle: Any) -> JobRecord:
    return stored(store, record(name, states or RUNNING, executor="slurm", handle={"id": name, **handle}))


def names(records: list[JobRecord]) -> list[str]:
    return [each.name for each in records]


def test_it_ends_with_the_last_one_that_needs_it(store):
    job(store, "maker", **{MADE: True})
    runs = [job(store, name, **{NEEDS: ["maker"]}) for name in ("a", "b")]
    relate(store, ["maker"], ["a"])
    relate(store, ["maker"], ["b"])
    assert store.by_name("maker").handle[MADE_FOR] == ["a", "b"]
    assert names(only_for(store, runs[:1])) == []
    assert names(only_for(store, runs)) == ["maker"]
    store.finish(runs[1], "cancelled")
    assert names(only_for(store, runs[:1])) == ["maker"]


def test_what_makes_for_it_ends_with_it(store):
    job(store, "first", **{MADE: True, MADE_FOR: ["second"]})
    job(store, "second", **{MADE: True, MADE_FOR: ["reader"], NEEDS: ["first"]})
    reader = job(store, "reader", **{NEEDS: ["second"]})
    assert names(only_for(store, [reader])) == ["second", "first"]
    job(store, "other", **{NEEDS: ["first"]})
    relate(store, ["first"], ["other"])
    assert names(only_for(store, [reader])) == ["second"]


def test_one_that_its_user_submitted_or_that_is_over_is_left(store):
    job(store, "own", **{MADE_FOR: ["reader"]})
    job(store, "over", *RUNNING, "succeeded", **{MADE: True, MADE_FOR: ["reader"]})
    reader = job(store, "reader", **{NEEDS: ["own", "over", "removed"]})
    assert names(only_for(store, [reader])) == []


def test_a_process_that_waits_for_it_needs_it(store):
    """As long as it is there; this one does not count: it is what is interrupted."""
    maker = job(store, "maker", **{MADE: True})
    with awaited(store, maker):
        assert names(unneeded(store, ["maker"], ())) == ["maker"]
        others = [asdict(gone()), asdict(process_of(1))]
        store.note(maker, handle=lambda now: {AWAITED: [*now[AWAITED], *others]})
        assert names(unneeded(store, ["maker"], ())) == []
        store.note(maker, handle=lambda now: {AWAITED: now[AWAITED][:2]})
        assert names(unneeded(store, ["maker"], ())) == ["maker"]
    assert store.by_name("maker").handle[AWAITED] == [asdict(gone())]


@pytest.mark.parametrize("odd", [3, "x", {"a": 1}, [None], [["x"]]])
def test_odd_lists(store, odd):
    job(store, "maker", **{MADE: True, MADE_FOR: odd, AWAITED: odd})
    reader = job(store, "reader", **{NEEDS: odd})
    assert names(only_for(store, [reader])) == []
    unneeded(store, ["maker"], ())
