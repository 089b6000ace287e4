"""Job records: written, read again, and true after a process was killed."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from job_scripts import plan_for

from nemo_runspec.errors import UserError
from nemo_runspec.paths import write_private
from nemo_runspec.records import STATES, JobRecord, JobStore, Launcher, Unreadable
from nemo_runspec.records.process import is_alive, machine, process_of, this_process

MARKER = """\
node=0
host=h
phase=command
exit_code={code}
signal=
rank=0
oom=0
received=
reason=
started=5
ended=9.5
"""


@pytest.fixture
def store(tmp_path):
    return JobStore(tmp_path / "jobs")


@pytest.fixture
def create(store, tmp_path):
    def make(name="one-1120-aaaaaaaa", **more):
        return store.create(plan_for(tmp_path, name=name), plan_text="{}\n", argv=["nemotron", "HF_TOKEN=abcd"], **more)

    return make


@pytest.fixture
def dead():
    """A process of this machine that was killed."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    known = process_of(child.pid)
    assert is_alive(known)
    child.kill()
    child.wait()
    return known


def test_states_are_a_closed_table():
    for state in STATES.values():
        assert set(state.then) <= set(STATES)
        assert not (state.final and state.then)


def test_a_job_from_plan_to_end(store, create):
    record = create(files={"job.sh": "#!\n"})
    for state in ("starting", "running"):
        record = store.transition(record, state)
    record = store.finish(record, "failed", exit_code=3, cause="exit code 3", outputs={"model": "/m"})
    found = store.get(record.name)
    assert found == record
    assert [t.state for t in found.states] == ["planned", "starting", "running", "failed"]
    assert found.argv == ("nemotron", "HF_TOKEN=******")
    assert (found.exit_code, found.cause, dict(found.outputs)) == (3, "exit code 3", {"model": "/m"})
    assert found.elapsed is not None
    assert all(t.time.endswith("+00:00") for t in found.states)
    with pytest.raises(ValueError, match="failed cannot become running"):
        store.transition(found, "running")


def test_only_the_owner_may_read(store, create):
    create(files={"job.sh": "x"})
    folder = store.folder("one-1120-aaaaaaaa")
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in folder.iterdir()}
    assert modes == dict.fromkeys(("record.json", "plan.json", "job.sh"), 0o600)
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(store.root.stat().st_mode) == 0o700


def test_a_name_is_used_once(create):
    create()
    with pytest.raises(UserError, match="exists already"):
        create()


def test_a_store_that_cannot_be_written_is_an_error_for_the_person(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot record the job"):
        JobStore(tmp_path / "file" / "jobs").create(plan_for(tmp_path), plan_text="", argv=[])


def test_text_that_is_no_text_leaves_no_half_a_job(store, tmp_path):
    with pytest.raises(UserError, match="not Unicode"):
        store.create(plan_for(tmp_path), plan_text="\ud800", argv=[])
    assert list(store.root.iterdir()) == []


def test_bytes_that_are_not_utf8_are_kept(store, tmp_path):
    made = store.create(plan_for(tmp_path), plan_text="{}", argv=["nemotron", "a\udcff"], files={"x": "b\udcfe"})
    assert store.get(made.name).argv == ("nemotron", "a\udcff")
    assert (store.folder(made.name) / "x").read_bytes() == b"b\xfe"


def test_a_failed_write_leaves_the_file_as_it_was_and_nothing_beside_it(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    write_private(tmp_path / "file", "before")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_private(tmp_path / "file", "after")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "before"


def test_list_get_and_last(store, create):
    assert store.list() == []
    with pytest.raises(UserError, match="no job is recorded"):
        store.get("last")
    names = ["aa-1120-11111111", "ab-1120-22222222", "b-1120-33333333"]
    for name in names:
        create(name)
    assert sorted(r.name for r in store.list()) == names
    assert store.get("b").name == names[2]
    assert store.get("last").name == store.list()[0].name == store.last_for("test/main").name
    assert store.last_for("other") is None
    with pytest.raises(UserError, match="beginning of 2 jobs"):
        store.get("a")
    with pytest.raises(UserError, match="no job 'ba'"):
        store.get("ba")
    assert (store.exists(names[0]), store.exists("no")) == (True, False)


def damage(text):
    data = json.loads(text)
    yield "no JSON", "{"
    yield "a list", "[]"
    yield "later", json.dumps({**data, "schema": 99})
    yield "states", json.dumps({**data, "states": []})
    yield "state", json.dumps({**data, "states": [{"state": "odd", "time": "x"}]})
    for time in ("x", None, 5, "2025-01-01", "2025-01-01T00:00:00"):
        yield "time", json.dumps({**data, "states": [{"state": "running", "time": time}]})
    for name in ("exit_code", "elapsed", "recipe", "outputs"):
        yield name, json.dumps({**data, name: ["odd"]})
    yield "deep", "[" * 100_000
    yield "key", json.dumps({k: v for k, v in data.items() if k != "recipe"})
    yield "launcher", json.dumps({**data, "launcher": 5})


def test_an_unreadable_record_is_listed_and_never_a_crash(store, create):
    create("good-1120-11111111")
    file = store.folder(create("bad-1120-22222222").name) / "record.json"
    for _, text in damage(file.read_text()):
        file.write_text(text)
        listed = {r.name: type(r) for r in store.list()}
        assert listed == {"good-1120-11111111": JobRecord, "bad-1120-22222222": Unreadable}
        with pytest.raises(UserError, match="cannot be read"):
            store.get("bad-1120-22222222")
    file.unlink()
    assert {type(r) for r in store.list()} == {JobRecord, Unreadable}


def test_keys_of_a_later_version_are_left_out(store, create):
    file = store.folder(create().name) / "record.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "new_key": 1}))
    assert isinstance(store.list()[0], JobRecord)


def test_a_live_launcher_is_believed(store, create):
    store.transition(create(launcher=this_process()), "running")
    assert store.get("last").state == "running"


def test_a_killed_launcher_without_a_marker_is_lost(store, create, dead):
    store.transition(create(launcher=dead), "running")
    assert store.get("last").state == "lost"
    assert store.list()[0].state == "lost"


@pytest.mark.parametrize(("code", "state"), [(0, "succeeded"), (3, "failed")])
def test_a_killed_launcher_with_a_marker_is_what_the_marker_says(store, create, dead, code, state):
    record = store.transition(create(launcher=dead), "running")
    status = store.folder(record.name) / "status"
    status.mkdir()
    (status / "node-0").write_text(MARKER.format(code=code))
    found = store.get("last")
    assert (found.state, found.exit_code, found.elapsed) == (state, code, 4.5)


@pytest.mark.parametrize("ended", ["inf", "nan", "1e30", "-1e30"])
def test_a_marker_with_an_impossible_time_is_no_crash(store, create, dead, ended):
    status = store.folder(store.transition(create(launcher=dead), "running").name) / "status"
    status.mkdir()
    (status / "node-0").write_text(MARKER.format(code=3).replace("ended=9.5", f"ended={ended}"))
    assert store.list()[0].state == "failed"


def test_a_killed_launcher_whose_script_lives_is_running(store, create, dead):
    store.transition(create(launcher=dead), "running", process=this_process())
    found = store.get("last")
    assert found.state == "running"
    assert str(os.getpid()) in found.reason


def test_another_process_with_the_same_id_is_not_taken_for_it(store, create):
    store.transition(create(launcher=replace(this_process(), started="1")), "running")
    assert store.get("last").state == "lost"


def test_a_launcher_on_another_machine_is_unknown(store, create):
    store.transition(create(launcher=Launcher(1, "1", "elsewhere")), "running")
    assert store.get("last").state == "unknown"


def test_machine_is_the_same_twice():
    assert machine() == machine()
    assert Path("/proc").exists() is ("pid:" in machine())
