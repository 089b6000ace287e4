"""Reading a store changes nothing in it; what became of a job is written down by whoever is asked to settle it."""

from __future__ import annotations

from pathlib import Path

from job_records import gone, record, stored

from nemo_runspec.records import JobStore
from nemo_runspec.records.settle import settle_all, settled


def contents(top: Path) -> dict[str, tuple[int, bytes]]:
    """All files below a folder, when each was changed, and what is in it."""
    found = (path for path in top.rglob("*"))
    return {str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"") for path in found}


def left(project) -> JobStore:
    """A store with a job whose supervisor died, one that is over, and what a killed process was removing."""
    store = JobStore(project.state / "jobs")
    stored(store, record("left", ("planned", "starting", "running"), launcher=gone()))
    stored(store, record("over", ("planned", "starting", "running", "succeeded"), exit_code=0))
    (store.root / ".rm-other-999999999").mkdir()
    return store


def test_no_file_changes_by_reading(project, nemotron):
    store = left(project)
    before = contents(store.root)
    states = {row["name"]: row["state"] for row in nemotron("jobs", "list", "--json").succeeds().json}
    assert states == {"left": "lost", "over": "succeeded"}
    assert "lost" in nemotron("jobs", "show", "left").succeeds().out
    assert {store.by_name(entry.name).state for entry in store.entries()} == {"lost", "succeeded"}
    assert store.list()[0].state
    assert contents(store.root) == before


def test_a_job_that_is_only_seen_to_be_over_is_no_settled_line_of_the_index(project):
    store = left(project)
    for _ in range(2):
        assert {entry.name: entry.record is None for entry in store.entries()}["left"] is False
    settle_all(store)
    store.entries()
    assert all(entry.record is None for entry in store.entries())


def test_settling_writes_it_down_once(project, nemotron):
    store = left(project)
    assert settled(store, "left").state == "lost"
    before = contents(store.root)
    assert settled(store, "left").state == "lost"
    assert contents(store.root) == before
    assert [step.state for step in store.by_name("left").states][-2:] == ["running", "lost"]


def test_asking_for_the_status_settles(project, nemotron):
    store = left(project)
    nemotron("jobs", "status")
    assert '"lost"' in (store.folder("left") / "record.json").read_text()
    assert not (store.root / ".rm-other-999999999").exists()
