"""Which jobs that make inputs end with the jobs that need them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from job_records import gone, record, stored

from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.process import process_of
from nemo_runspec.remote.input_jobs import awaited, only_for, relate, unneeded

RUNNING = ("planned", "submitting", "queued", "running")


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore(tmp_path / "jobs")


def job(store: JobStore, name: str, *states: str, **handle: Any) -> JobRecord:
    return stored(store, record(name, states or RUNNING, executor="slurm", handle={"id": name, **handle}))


def names(records: list[JobRecord]) -> list[str]:
    return [each.name for each in records]


def test_it_ends_with_the_last_one_that_needs_it(store):
    job(store, "maker", **{"made": True})
    runs = [job(store, name, **{"needs": ["maker"]}) for name in ("a", "b")]
    relate(store, ["maker"], ["a"])
    relate(store, ["maker"], ["b"])
    assert store.by_name("maker").relations.made_for == ("a", "b")
    assert names(only_for(store, runs[:1])) == []
    assert names(only_for(store, runs)) == ["maker"]
    store.finish(runs[1], "cancelled")
    assert names(only_for(store, runs[:1])) == ["maker"]


def test_what_makes_for_it_ends_with_it(store):
    job(store, "first", **{"made": True, "made_for": ["second"]})
    job(store, "second", **{"made": True, "made_for": ["reader"], "needs": ["first"]})
    reader = job(store, "reader", **{"needs": ["second"]})
    assert names(only_for(store, [reader])) == ["second", "first"]
    job(store, "other", **{"needs": ["first"]})
    relate(store, ["first"], ["other"])
    assert names(only_for(store, [reader])) == ["second"]


def test_one_that_its_user_submitted_or_that_is_over_is_left(store):
    job(store, "own", **{"made_for": ["reader"]})
    job(store, "over", *RUNNING, "succeeded", **{"made": True, "made_for": ["reader"]})
    reader = job(store, "reader", **{"needs": ["own", "over", "removed"]})
    assert names(only_for(store, [reader])) == []


def test_a_process_that_waits_for_it_needs_it(store):
    """As long as it is there; this one does not count: it is what is interrupted."""
    maker = job(store, "maker", **{"made": True})
    with awaited(store, maker):
        assert names(unneeded(store, ["maker"], ())) == ["maker"]
        others = [gone(), process_of(1)]
        store.note(maker, relations=lambda now: replace(now.relations, awaited_by=(*now.relations.awaited_by, *others)))
        assert names(unneeded(store, ["maker"], ())) == []
        store.note(maker, relations=lambda now: replace(now.relations, awaited_by=now.relations.awaited_by[:2]))
        assert names(unneeded(store, ["maker"], ())) == ["maker"]
    assert store.by_name("maker").relations.awaited_by == (gone(),)


@pytest.mark.parametrize("odd", [3, "x", {"a": 1}, [None], [["x"]]])
def test_odd_lists(store, odd):
    job(store, "maker", **{"made": True, "made_for": odd, "awaited": odd})
    reader = job(store, "reader", **{"needs": odd})
    assert names(only_for(store, [reader])) == []
    unneeded(store, ["maker"], ())
