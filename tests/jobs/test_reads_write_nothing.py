"""Reading a store changes nothing in it; what became of a job is written down by whoever is asked to settle it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from job_records import gone, record, stored

from nemo_runspec.api.sweep import SubmittedSweep
from nemo_runspec.records import JobStore
from nemo_runspec.records.settle import settle_all, settled
from nemo_runspec.sweeps.model import Member, Sweep
from nemo_runspec.sweeps.store import SweepStore

INDEX = "*-index-*.jsonl"
"""What lists keep for the next list. It may be deleted at any moment, so it is nothing that a read could change."""


def contents(top: Path) -> dict[str, tuple[int, bytes]]:
    """All files below a folder, when each was changed, and what is in it; without what is kept for lists."""
    found = (path for path in top.rglob("*") if not path.match(INDEX))
    return {str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"") for path in found}


def left(project) -> JobStore:
    """A store with a job whose supervisor died, one that is over, and what a killed process was removing."""
    store = JobStore(project.state / "jobs")
    stored(store, record("left", ("planned", "starting", "running"), launcher=gone()))
    stored(store, record("over", ("planned", "starting", "running", "succeeded"), exit_code=0))
    (store.root / ".rm-other-999999999").mkdir()
    return store


def alone(project, store: JobStore) -> SweepStore:
    """A sweep that nobody watches over, and whose only job is over: its end is not on record."""
    members = (Member(0, "over", str(store.folder("over")), {"lr": "1"}),)
    sweeps = SweepStore(project.state / "sweeps")
    sweeps.write(
        Sweep(
            "sweep-y", "toy/train", "2026-11-21T08:00:00.000+00:00", members=members, executor="slurm", unattended=True
        )
    )
    return sweeps


def test_no_file_changes_by_reading(project, nemotron):
    store = left(project)
    sweeps = alone(project, store)
    before = contents(project.state)
    states = {row["name"]: row["state"] for row in nemotron("jobs", "list", "--json").succeeds().json}
    assert states == {"left": "lost", "over": "succeeded", "sweep-y": "succeeded"}
    assert "lost" in nemotron("jobs", "show", "left").succeeds().out
    assert {store.by_name(entry.name).state for entry in store.entries()} == {"lost", "succeeded"}
    assert store.list()[0].state
    assert sweeps.get("sweep-y").verdict == sweeps.read("sweep-y").verdict == "succeeded"
    assert "succeeded, 1 run" in repr(SubmittedSweep("sweep-y"))
    assert contents(project.state) == before


def test_a_list_is_the_same_without_what_was_kept_for_it(project, nemotron):
    alone(project, left(project))
    first = nemotron("jobs", "list").succeeds().out
    kept = list(project.state.glob(INDEX))
    assert kept
    for file in kept:
        file.unlink()
    assert nemotron("jobs", "list").succeeds().out == first


@contextmanager
def unwritable(top: Path) -> Iterator[None]:
    """Inside, nothing below a folder may be written by whom the modes of files bind."""
    paths = [top, *top.rglob("*")]
    modes = {path: path.stat().st_mode for path in paths}
    for path in reversed(paths):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def bound_by_modes() -> list[str]:
    """What to put before a command so that the modes of files bind it: root may pass them over otherwise."""
    return ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"] if os.geteuid() == 0 else []


@pytest.mark.slow
def test_a_store_that_cannot_be_written_is_read_all_the_same(project):
    store = left(project)
    member = Member(0, "over", str(store.folder("over")), {"lr": "1"}, was="succeeded")
    ended = {"ended": "2026-11-21T08:10:00.000+00:00", "verdict": "succeeded", "exit_code": 0}
    SweepStore(project.state / "sweeps").write(
        Sweep("sweep-x", "toy/train", "2026-11-21T08:00:00.000+00:00", members=(member,), executor="local", **ended)
    )

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        environment = project.environment(PYTHONDONTWRITEBYTECODE="1")
        words = [*bound_by_modes(), *command]
        return subprocess.run(words, cwd=project.folder, env=environment, capture_output=True, text=True, check=False)

    def nemotron(*words: str) -> str:
        done = run(sys.executable, "-m", "nemotron", *words)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
        return done.stdout

    before = contents(project.state)
    with unwritable(project.state):
        if run("touch", str(store.root / "new")).returncode == 0:
            pytest.skip("lab: the modes of files bind nobody here")
        rows = {row["name"]: row["state"] for row in json.loads(nemotron("jobs", "list", "--json"))}
        assert rows == {"left": "lost", "over": "succeeded", "sweep-x": "succeeded"}
        assert json.loads(nemotron("jobs", "show", "left", "--json"))["states"][-1]["state"] == "lost"
        for words in (("list",), ("show", "over"), ("show", "sweep-x"), ("list", "--group", "sweep-x"), ("status",)):
            assert nemotron("jobs", *words)
        states = "*sorted(job.status().state for job in n.jobs())"
        api = f"import nemo_runspec as n; print({states}, n.find_sweep('sweep-x').name)"
        assert run(sys.executable, "-c", api).stdout == "lost succeeded sweep-x\n"
    assert contents(project.state) == before


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


@pytest.mark.parametrize("verb", ["status", "wait", "show", "cancel"])
def test_so_it_does_with_a_sweep_that_nobody_watches_over(project, nemotron, verb):
    sweeps, store = alone(project, left(project)), JobStore(project.state / "jobs")
    stored(store, record("over", ("planned", "starting", "running", "succeeded"), exit_code=0, group="sweep-y"))
    nemotron("jobs", verb, "sweep-y").succeeds()
    assert '"verdict": "succeeded"' in (sweeps.folder("sweep-y") / "sweep.json").read_text()


def test_a_job_that_is_removed_meanwhile_keeps_no_other_from_being_settled(project):
    class Removing(JobStore):
        """Somebody removes a job right after it was listed."""

        def entries(self):
            found = super().entries()
            shutil.rmtree(self.folder("removed"))
            return found

    store = left(project)
    stored(store, record("removed", ("planned", "starting", "running"), launcher=gone()))
    settle_all(Removing(store.root))
    assert [entry.name for entry in store.entries() if entry.state == "lost"] == ["left"]
    assert '"lost"' in (store.folder("left") / "record.json").read_text()
