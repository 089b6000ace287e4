"""The index beside the store: never needed, never believed against the record."""

from __future__ import annotations

import json
import os

import pytest
from job_records import gone, record, stored

from nemo_runspec.records import JobStore
from nemo_runspec.records.process import this_process
from nemo_runspec.records.settle import settle_all

ENDED = ("planned", "running", "succeeded")


@pytest.fixture
def store(tmp_path):
    return JobStore(tmp_path / "jobs")


@pytest.fixture
def reads(store, monkeypatch):
    """Names of the records that were read."""
    names = []
    read = JobStore.stored
    monkeypatch.setattr(JobStore, "stored", lambda self, name: (names.append(name), read(self, name))[1])
    return names


def index_file(store):
    return store.root.with_name("jobs-index-3.jsonl")


def fill(store, count=20):
    for n in range(count):
        stored(store, record(f"job-{n:03}", ENDED, age=100 - n, exit_code=0, group="g" if n % 2 else None))


def test_entries_say_what_the_records_say(store):
    fill(store)
    stored(store, record("strange", ENDED, recipe='a\tb\u2028"c', profile="\udcff"))
    for _ in range(3):
        listed = [
            (r.name, r.created, r.changed, r.state, r.recipe, r.executor, r.profile, r.group, None, None)
            for r in store.list()
        ]
        assert [tuple(e)[:-1] for e in store.entries()] == listed
    assert index_file(store).stat().st_mode & 0o777 == 0o600


def test_records_of_jobs_that_are_over_are_read_once(store, reads):
    fill(store, 5)
    stored(store, record("lost", ("planned", "running"), launcher=gone()))
    stored(store, record("running", ("planned", "running"), launcher=this_process()))
    settle_all(store)  # `lost` is written down
    store.entries()
    reads.clear()
    assert len(store.entries()) == 7
    assert reads == ["running"]


def test_a_record_that_has_changed_is_read_again(store, reads):
    fill(store, 3)
    store.entries()
    changed = stored(store, record("job-001", ENDED, age=5, recipe="other/recipe"))
    reads.clear()
    assert {e.name: e.recipe for e in store.entries()}["job-001"] == changed.recipe
    assert reads == ["job-001"]
    (store.folder("job-002") / "record.json").write_text("{")
    assert {e.name: e.state for e in store.entries()}["job-002"] == "unknown"


def test_a_job_that_was_removed_is_not_listed(store):
    fill(store, 3)
    store.entries()
    store.remove("job-001", lambda record: None)
    assert [e.name for e in store.entries()] == ["job-002", "job-000"]
    with pytest.raises(Exception, match="no job 'job-001'"):
        store.remove("job-001", lambda record: None)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: "{",
        lambda text: text[: len(text) // 2],
        lambda text: text[:-7] + text[:300],
        lambda text: "\n".join(reversed(text.splitlines())),
        lambda text: text.replace('"succeeded"', "5"),
        lambda text: text.replace("null", "[]"),
        lambda text: "[" * 100_000,
        lambda text: "\xff\x00" * 50,
        lambda text: '["job-001", 1]\n' * 10,
    ],
)
def test_a_damaged_index_changes_nothing(store, damage):
    fill(store)
    wanted = [tuple(e)[:-1] for e in store.entries()]
    index_file(store).write_text(damage(index_file(store).read_text()))
    for _ in range(2):
        assert [tuple(e)[:-1] for e in store.entries()] == wanted


def test_an_index_that_cannot_be_written_is_done_without(store):
    fill(store, 3)
    index_file(store).mkdir()
    assert len(store.entries()) == 3


def test_a_line_that_a_killed_writer_left_unfinished_swallows_no_other(store, reads):
    fill(store, 2)
    store.entries()
    with index_file(store).open("a") as file:
        file.write('["half')
    stored(store, record("new", ENDED))
    store.entries()
    reads.clear()
    assert len(store.entries()) == 3
    assert reads == []


@pytest.mark.slow
def test_it_does_not_grow_for_ever(store):
    stored(store, record("job", ENDED))
    for turn in range(1100):
        os.utime(store.folder("job") / "record.json", ns=(turn, turn))
        store.entries()
    lines = [json.loads(line) for line in index_file(store).read_text().splitlines() if line]
    assert len(lines) < 1010
    assert store.entries()[0].record is None
