"""One odd entry in nemotron's state hides nothing else: it is listed as what cannot be read, with the reason.

FIFOs have no writer and devices no end here: whoever opened one in the usual way would never come back.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from job_records import gone, record, stored
from support import call

from nemo_runspec import regular
from nemo_runspec.processes import mark
from nemo_runspec.records import JobStore
from nemo_runspec.records.cancel_request import read_request
from nemo_runspec.records.metrics import last_metrics
from nemo_runspec.remote.log_mirror import Mirror
from nemo_runspec.script.markers import read_markers
from nemo_runspec.submission.mount_commits import read_mounts
from nemo_runspec.sweeps.store import SweepStore

RUNNING = ("planned", "starting", "running")
ENDED = (*RUNNING, "succeeded")
GOOD, ODD = "a-good-1120-aaaaaaaa", "b-odd-1120-bbbbbbbb"


@pytest.fixture
def store(project):
    store = JobStore(project.state / "jobs")
    stored(store, record(GOOD, ENDED, exit_code=0, elapsed=4.25))
    return store


def bind(path: Path) -> None:
    server = socket.socket(socket.AF_UNIX)
    before = Path.cwd()
    os.chdir(path.parent)  # a socket's path has room for a hundred characters
    try:
        server.bind(path.name)
    finally:
        os.chdir(before)
        server.close()


def huge(path: Path) -> None:
    path.touch()
    os.truncate(path, regular.MOST + 1)


FILES: dict[str, Callable[[Path], object]] = {
    "it is a FIFO": os.mkfifo,
    "it is a folder": Path.mkdir,
    "it is a socket": bind,
    "it is a link": lambda path: path.symlink_to(path),
    "it is a link, not": lambda path: path.symlink_to("/dev/zero"),
    "it is larger than 16 MiB": huge,
    "it is cut off or damaged": lambda path: path.write_bytes(b"{" + bytes(range(256))),
    "it is empty": Path.touch,
    "something else": lambda path: path.write_text("[" * 100_000),
    "something else than a job record": lambda path: path.write_text("[1, 2]"),
}


def shows_both(problem: str) -> None:
    found = {job["name"]: job for job in call("jobs", "list", "--json").succeeds().json}
    assert found[GOOD]["state"] == "succeeded"
    assert problem in found[ODD]["problem"]
    lines = call("jobs", "list").succeeds().out.splitlines()
    assert any(line.startswith(GOOD) and "succeeded" in line for line in lines)
    assert any(line.startswith(ODD) and problem in line for line in lines)
    call("jobs", "show", ODD).refuses("cannot be read", problem)
    assert call("jobs", "wait", GOOD).code == 0
    call("jobs", "rm", ODD).refuses("cannot be read", "--force")
    call("jobs", "rm", "--force", ODD).succeeds()
    assert [job["name"] for job in call("jobs", "list", "--json").succeeds().json] == [GOOD]


@pytest.mark.parametrize("problem", FILES)
def test_a_record_that_is_no_record(store, problem):
    folder = store.folder(ODD)
    folder.mkdir()
    FILES[problem](folder / "record.json")
    shows_both(problem.removesuffix(", not"))


@pytest.mark.parametrize("leads", ["itself", "nowhere", "a file"])
def test_a_link_that_is_no_job(store, leads, project):
    to = {"itself": store.folder(ODD), "nowhere": store.root / "gone", "a file": project.env_file}[leads]
    store.folder(ODD).symlink_to(to)
    shows_both("")
    assert project.env_file.exists()


def changed(**values):
    """A record's text with other values, written as Python writes them: NaN and Infinity too."""
    return lambda text: json.dumps({**json.loads(text), **values})


@pytest.mark.parametrize(
    "damage",
    [
        changed(elapsed=float("nan")),
        changed(elapsed=float("inf")),
        lambda text: text.replace('"elapsed": 4.25', '"elapsed": 1e999'),
        lambda text: text.replace('"elapsed": 4.25', '"elapsed": ' + "9" * 5000),
        changed(facts={"x": float("inf")}),
        changed(handle=[]),
        changed(states=3),
        changed(argv=[1]),
    ],
    ids=range(8),
)
def test_values_that_no_record_has(store, damage):
    made = stored(store, record(ODD, ENDED, exit_code=0, elapsed=4.25))
    file = store.folder(made.name) / "record.json"
    file.write_text(damage(file.read_text()))
    shows_both("")


def test_the_damaged_record_of_a_killed_supervisor_hides_nothing(store):
    made = stored(store, record(ODD, RUNNING, launcher=gone()))
    file = store.folder(made.name) / "record.json"
    file.write_text(changed(elapsed=float("nan"))(file.read_text()))
    shows_both("")


@pytest.mark.parametrize("name", [".rm-x-²", ".rm-x-", ".rm-x-99999999999999999999", ".new-x-²", ".rm-x-١"])
def test_hidden_folders_with_odd_names(store, name):
    (store.root / name).mkdir()
    assert [entry.name for entry in JobStore(store.root).entries()] == [GOOD]


def test_what_a_killed_client_was_making_goes_once_it_is_gone(store, dead_mark):
    left, ours = store.root / f".new-{dead_mark}-{ODD}", store.root / f".new-{mark()}-{ODD}"
    other = store.root / f".new-00000000-1-00000000-{ODD}"  # of another machine: kept until it is old
    for folder in (left, ours, other):
        folder.mkdir()
    assert [entry.name for entry in JobStore(store.root).entries()] == [GOOD]
    JobStore(store.root).clean()
    assert (left.exists(), ours.exists(), other.exists()) == (False, True, True)


@pytest.fixture
def dead_mark(tmp_path):
    """The mark of a process that has ended."""
    child = os.fork()
    if child == 0:
        (tmp_path / "mark").write_text(mark())
        os._exit(0)
    os.waitpid(child, 0)
    return (tmp_path / "mark").read_text()


@pytest.mark.parametrize("problem", [name for name in FILES if name not in ("it is empty", "it is cut off or damaged")])
def test_other_files_of_the_state(store, project, problem):
    """The lists' caches, a sweep, and what lies beside a record: what is no regular file says nothing."""
    index = store.root.with_name("jobs-index-3.jsonl")
    index.unlink(missing_ok=True)
    FILES[problem](index)
    sweep = project.state / "sweeps" / "sweep-x-1120-aaaaaaaa"
    sweep.mkdir(parents=True)
    FILES[problem](sweep / "sweep.json")
    assert GOOD in call("jobs", "list").succeeds().out
    assert [type(entry.record).__name__ for entry in SweepStore().entries()] == ["Unreadable"]
    if index.is_dir() and not index.is_symlink():
        index.rmdir()
    folder = store.folder(GOOD)
    (folder / "logs").mkdir()
    (folder / "status").mkdir()
    for name in ("cancel.json", "mounts.json", "logs/fetched.json", "status/node-0", "metrics.jsonl"):
        FILES[problem](folder / name)
    read_request(folder)
    assert read_mounts(folder) == ()
    assert read_markers(folder / "status") == ()
    if problem != "it is a link, not":  # a metrics file may be a link of the job's own
        assert last_metrics(folder / "metrics.jsonl") == {}
    assert Mirror(None, None, folder)._read().size == 0  # type: ignore[arg-type]
    shutil.rmtree(sweep)


def test_an_index_with_states_that_there_are_not(store):
    call("jobs", "list").succeeds()
    index = store.root.with_name("jobs-index-3.jsonl")
    index.write_text(index.read_text().replace('"succeeded"', '"odd"'))
    assert "succeeded" in call("jobs", "list").succeeds().out


def test_a_log_that_is_a_fifo_is_not_waited_for(store):
    folder = store.folder(GOOD)
    (folder / "logs").mkdir()
    os.mkfifo(folder / "logs" / "job.log")
    outcome = call("jobs", "logs", GOOD)
    assert outcome.code != 0
    assert "FIFO" in outcome.err
