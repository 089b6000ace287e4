"""A writer of records is killed, at random and before every single line: nothing recorded is lost or unreadable."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest
from job_scripts import plan_for

from nemo_runspec.records import STATES, JobRecord, JobStore
from nemo_runspec.records.erase import NEW

WRITERS = ("records/store.py", "records/erase.py", "records/lock.py", "nemo_runspec/paths.py", "shutil.py")
STEPS = ("starting", "running", "queued", "running")


@pytest.fixture
def plan(tmp_path):
    return plan_for(tmp_path)


def write_jobs(store, plan, seed, report):
    """Makes jobs and takes them on, for ever; every finished write is reported as `name number-of-states`."""
    dice = random.Random(seed)
    for number in itertools.count(1):
        name = f"job-{seed}-{number}"
        record = store.create(
            dataclasses.replace(plan, name=name),
            plan_text='{"plan": 1}\n',
            argv=["nemotron"],
            files={"job.sh": "x" * 9000},
        )
        report(record)
        for state in STEPS[: dice.randint(0, len(STEPS))]:
            record = store.transition(record, state, "why " * dice.randint(0, 900))
            report(record)
        if record.state == "running":
            report(store.finish(record, "failed", exit_code=3, cause="c" * dice.randint(0, 5000)))


def killed_writer(store, plan, seconds, seed):
    """Forks a writer and kills it after that time of its own; what it has reported: name → number of states."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.write(writing, b"!")
            write_jobs(store, plan, seed, lambda r: os.write(writing, f"{r.name} {len(r.states)}\n".encode()))
        os._exit(1)
    os.close(writing)
    assert os.read(reading, 1) == b"!", "it has not begun"  # its time begins when it does
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    with os.fdopen(reading) as pipe:
        return {name: int(states) for name, states in (line.split() for line in pipe.read().splitlines())}


def check_whole(store, reported):
    """Every visible job is whole, and no older than it was reported to be."""
    records = {r.name: r for r in store.list()}
    assert all(isinstance(r, JobRecord) for r in records.values()), records
    for name, states in reported.items():
        assert len(records[name].states) >= states
    for name, record in records.items():
        folder = store.folder(name)
        assert json.loads((folder / "plan.json").read_text()) == {"plan": 1}
        assert (folder / "job.sh").stat().st_size == 9000
        steps = [t.state for t in record.states]
        assert all(after in STATES[before].then for before, after in itertools.pairwise(steps))


def leftovers(root):
    return [p for p in root.glob(".*")] + [p for p in root.glob("*/.record.json.*.tmp")]


@pytest.mark.slow
def test_a_writer_killed_at_random_moments(tmp_path, plan):
    dice = random.Random(4)
    reported, torn = {}, 0
    for turn in range(300):
        # A store of its own every few turns, so that reading all of it each time stays quick.
        store = JobStore(tmp_path / f"jobs-{turn // 10}")
        reported = {} if turn % 10 == 0 else reported
        reported |= killed_writer(store, plan, dice.random() * 0.02, turn)
        check_whole(store, reported)
        torn += len(leftovers(store.root))
    assert torn > 0, "no kill hit a write, so nothing was tested"


def dies_before(step, work):
    """Runs `work` in a child that is killed right before its n-th line of what writes.

    True if it came that far.
    """
    child = os.fork()
    if child == 0:
        seen = itertools.count(1)

        def trace(frame, event, _arg):
            if not any(place in frame.f_code.co_filename for place in WRITERS):
                return None
            if event == "line" and next(seen) == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return trace

        with contextlib.suppress(BaseException):
            sys.settrace(trace)
            work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.slow
def test_creation_killed_before_every_line(tmp_path, plan):
    for step in itertools.count(1):
        store = JobStore(tmp_path / f"jobs-{step}")
        died = dies_before(step, lambda store=store: store.create(plan, plan_text="{}", argv=[], files={"a": "b"}))
        found = store.list()
        assert [type(r) for r in found] in ([], [JobRecord])
        if found:
            assert {p.name for p in store.folder(plan.name).iterdir()} == {"record.json", "plan.json", "a"}
        if not died:
            break
        assert store.create(dataclasses.replace(plan, name="next"), plan_text="{}", argv=[]).name == "next"
    assert step > 30
    assert found


@pytest.mark.slow
def test_a_change_killed_before_every_line(tmp_path, plan):
    for step in itertools.count(1):
        store = JobStore(tmp_path / f"jobs-{step}")
        record = store.transition(store.create(plan, plan_text="{}", argv=[]), "running")
        died = dies_before(step, lambda store=store, record=record: store.finish(record, "succeeded", exit_code=0))
        found = store.get(plan.name)
        assert found.state in ("running", "succeeded")
        if not died:
            break
        if found.state == "running":  # the lock died with its holder, and what it left is taken away
            store.finish(record, "cancelled")
            assert {p.name for p in store.folder(plan.name).iterdir()} == {"record.json", "plan.json", ".lock"}
    assert step > 30
    assert found.state == "succeeded"


@pytest.mark.slow
def test_removal_killed_before_every_line(tmp_path, plan):
    for step in itertools.count(1):
        store = JobStore(tmp_path / f"jobs-{step}")
        store.create(dataclasses.replace(plan, name="other"), plan_text="{}", argv=[])
        store.create(plan, plan_text="{}", argv=[], files={f"f{n}": "x" for n in range(5)})
        died = dies_before(step, lambda store=store: store.remove(plan.name, lambda record: None))
        found = {r.name: type(r) for r in store.list()}
        assert found.pop("other") is JobRecord
        assert found in ({}, {plan.name: JobRecord})
        if found:
            assert len(list(store.folder(plan.name).glob("f*"))) == 5
        if not died:
            break
    assert step > 30
    assert not found


def test_old_leftovers_are_cleaned_up_and_young_ones_are_not(tmp_path, plan, monkeypatch):
    store = JobStore(tmp_path / "jobs")
    store.create(plan, plan_text="{}", argv=[])
    left = store.root / f"{NEW}gone-123"
    left.mkdir()
    (left / "record.json").write_text("{")
    outside = tmp_path / "outside"
    outside.mkdir()
    (left / "link").symlink_to(outside)
    store.clean()
    assert left.exists()
    clock = [time.time() + 7200]  # this machine's clock may be as far ahead of the file server's
    monkeypatch.setattr(time, "time", lambda: clock[0])
    store.clean()
    assert left.exists()
    clock[0] += 86400
    assert [e.name for e in store.entries()] == [plan.name]
    assert left.exists(), "reading removes nothing"
    store.clean()
    assert not left.exists()
    assert outside.exists()
    assert Path(store.folder(plan.name)).exists()
