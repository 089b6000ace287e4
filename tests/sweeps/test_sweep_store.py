"""What is kept of a sweep, and what can still be read of it."""

from __future__ import annotations

import dataclasses
import json
import os
import stat
import subprocess
import sys
from contextlib import suppress

import pytest
import support
from job_records import record, stored
from sweep_records import member, sweep_of
from waiting import LONG, line_of

from nemo_runspec.errors import UserError
from nemo_runspec.planning.names import MAX_LENGTH
from nemo_runspec.plans.labels import Labels
from nemo_runspec.records import JobStore
from nemo_runspec.records.cancel_request import CancelRequest
from nemo_runspec.records.process import process_of, this_process
from nemo_runspec.sweeps.codec import from_json, to_json
from nemo_runspec.sweeps.control import stop
from nemo_runspec.sweeps.life import SweepLifecycle
from nemo_runspec.sweeps.model import NOT_RUN, REMOVED, new_group
from nemo_runspec.sweeps.status import status_of
from nemo_runspec.sweeps.store import SweepStore
from nemotron.cli.sweep_console import sweep_caller

WRONG = json.dumps({**json.loads(to_json(sweep_of())), "created": 3})


@pytest.fixture
def store(tmp_path):
    return SweepStore(tmp_path / "sweeps")


def test_it_comes_back_as_it_was(store):
    sweep = dataclasses.replace(sweep_of(member(0, {"a": "1"}, state=None), metric="loss"), argv=("nemotron", "-m"))
    store.write(sweep)
    assert store.get(sweep.group) == sweep
    assert store.get(sweep.group[:-2]) == sweep
    file = store.folder(sweep.group) / "sweep.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_members_are_what_their_jobs_are_now(store, tmp_path):
    """A job's own record is asked; one that still runs has the metrics it has written so far."""
    jobs = JobStore(tmp_path / "jobs")
    for name, states in (("job-0", ("planned", "succeeded")), ("job-1", ("planned", "running"))):
        stored(jobs, record(name, states, metrics={"loss": 1.0}))
    (jobs.folder("job-1") / "metrics.jsonl").write_text('{"loss": 7.5}\n')
    store.write(sweep_of(*(member(i, {}, state=None, top=jobs.root) for i in range(3))))
    found = store.get("sweep-test").members
    assert [m.state for m in found] == ["succeeded", "running", NOT_RUN]
    assert found[1].metrics == {"loss": 7.5}


def test_a_job_that_was_removed_is_not_one_that_was_not_run(store, tmp_path):
    store.write(sweep_of(member(0, {}, top=tmp_path), member(1, {}, state=None, top=tmp_path)))
    assert [m.state for m in store.get("sweep-test").members] == [REMOVED, NOT_RUN]


def test_what_is_not_there(store):
    with pytest.raises(UserError, match="no sweep 'sweep-x'"):
        store.get("sweep-x")
    for word in ("", "../etc"):
        with pytest.raises(UserError, match="no sweep"):
            store.get(word)
    store.write(sweep_of())
    store.write(dataclasses.replace(sweep_of(), group="sweep-test-1121-zzzzzzzz"))
    with pytest.raises(UserError, match=r"'sweep-test-1121' is the beginning of 2 sweeps: .*abcdefgh, .*zzzzzzzz"):
        store.get("sweep-test-1121")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 99}', '{"schema": 1}', '{"schema": 1, "argv": 3}', WRONG])
def test_what_cannot_be_read_says_so(store, text):
    store.write(sweep_of())
    (store.folder("sweep-test-1121-abcdefgh") / "sweep.json").write_text(text)
    with pytest.raises(UserError, match="cannot be read"):
        store.get("sweep-test")


WHOLE = dataclasses.replace(
    sweep_of(member(0, {"a": "1"}, state=None), metric="loss"),
    launcher=this_process(), ended="2026-11-21T08:10:00.000+00:00", verdict="failed", exit_code=3, host="here",
)  # fmt: skip
ODD = (None, True, 3, -(10**40), 1e300, "", "x", "\0", [], [3], {}, {"a": 3})


def places(data, path=()):
    """Every place in a table, inner ones after those they are in."""
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in pairs:
        yield (*path, key)
        yield from places(value, (*path, key))


@pytest.mark.parametrize("path", list(places(json.loads(to_json(WHOLE)))), ids=lambda path: ".".join(map(str, path)))
def test_whatever_stands_in_its_place_is_one_error_or_read(store, path):
    """Nothing but a `UserError` comes out of it; what is read can be written again."""
    store.write(WHOLE)
    file = store.folder(WHOLE.group) / "sweep.json"
    for odd in ODD:
        data = json.loads(to_json(WHOLE))
        *outer, last = path
        inner = data
        for key in outer:
            inner = inner[key]
        inner[last] = odd
        file.write_text(json.dumps(data))
        try:
            sweep = store.get(WHOLE.group)
        except UserError as error:
            assert "cannot be read" in error.what and "rm --force" in error.remedy
        else:
            assert from_json(to_json(sweep)).group == sweep.group
            assert status_of(sweep).state
        assert [entry.name for entry in store.entries()] == [WHOLE.group]
        del inner[last]
        file.write_text(json.dumps(data))
        with suppress(UserError):
            store.get(WHOLE.group)


def test_what_a_later_version_adds_is_left_out():
    data = json.loads(to_json(sweep_of(member(0, {"a": "1"}, state=None))))
    data["new"] = data["members"][0]["newer"] = data["options"]["newest"] = 1
    assert from_json(json.dumps(data)).members[0].overrides == {"a": "1"}


@pytest.mark.parametrize("recipe", ["mine/train", "nano3/data/prep/pretrain/" * 4, "Ünïcode/…", "9"])
def test_groups_are_valid_names(recipe):
    import re

    group = new_group(Labels(), recipe)
    assert re.fullmatch(r"sweep-[a-z0-9]([a-z0-9-]*[a-z0-9])?", group)
    assert len(group) <= MAX_LENGTH


def test_a_list_reads_a_sweep_that_is_over_once(store):
    """An ended sweep is known from the index while its file is the same; one that is not over never is."""
    for group, ended in (("sweep-a", "2026-11-21T09:00:00.000+00:00"), ("sweep-b", None)):
        made = dataclasses.replace(sweep_of(), group=group, ended=ended, verdict="failed" if ended else "")
        store.write(dataclasses.replace(made, launcher=None if ended else this_process()))
    first = store.entries()
    assert {e.name: (e.state, e.is_sweep) for e in first} == {"sweep-a": ("failed", True), "sweep-b": ("planned", True)}
    lines = store.root.with_name("sweeps-index-3.jsonl").read_text().split()
    assert ["sweep-a" in line for line in lines if line.startswith("[") and "sweep-" in line] == [True]
    assert store.entries() == first
    changed = dataclasses.replace(
        sweep_of(), group="sweep-a", verdict="cancelled", ended="2026-11-21T10:00:00.000+00:00"
    )
    store.write(changed)
    assert {e.name: e.state for e in store.entries()}["sweep-a"] == "cancelled"


def test_one_that_cannot_be_read_is_listed(store):
    store.folder("sweep-x").mkdir(parents=True)
    (entry,) = store.entries()
    assert (entry.name, entry.state, entry.is_sweep) == ("sweep-x", "unknown", True)
    with pytest.raises(UserError, match="it has no record") as error:
        store.read("sweep-x")
    assert "rm --force sweep-x" in error.value.remedy


@pytest.mark.slow
def test_that_a_sweep_has_ended_is_written_once_its_results_are_there(project, monkeypatch, capsys):
    """Who waited for it reads them at once, and who removes it then removes all of it."""
    support.enter(project, monkeypatch)
    life = SweepLifecycle(
        sweep_of(member(0, {"lr": "1"}, {"loss": 2.0}), metric="loss"), sweep_caller(), lambda *_: None, lambda _: None
    )
    life.store.write(life.sweep)
    write, there = life.store.write, []

    def look_and_write(sweep):
        there.append((life.folder / "results.csv").exists())
        write(sweep)

    monkeypatch.setattr(life.store, "write", look_and_write)
    life._conclude(None)
    assert there == [True] and life.store.get(life.sweep.group).ended
    assert "loss" in capsys.readouterr().out


def test_members_have_a_wish_before_their_process_has_the_signal(store, tmp_path):
    """They hear it too, and it must be no second one to them."""
    program = (
        "import pathlib, signal, sys, time\n"
        "signal.signal(15, lambda *_: sys.exit(pathlib.Path(sys.argv[1], 'cancel.json').read_text()))\n"
        "print('up', flush=True); time.sleep(600)"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert line_of(running.stdout) == "up\n"
    sweep = dataclasses.replace(
        sweep_of(member(0, {"lr": "1"}, state="running")), launcher=process_of(running.pid), host=os.uname().nodename
    )
    store.write(sweep)
    stop(store, sweep.group, CancelRequest(5.0, "me"), [tmp_path])
    assert json.loads(running.communicate(timeout=LONG)[1]) == {"grace": 5.0, "by": "me", "announced": True}
