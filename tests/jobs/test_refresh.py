"""What has become of jobs whose supervisor is dead, elsewhere, or of before a restart."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from dataclasses import replace
from types import SimpleNamespace

import pytest
from job_records import gone, record, stored

from nemo_runspec import backends
from nemo_runspec.backends import get_backend
from nemo_runspec.backends.base import Backend
from nemo_runspec.backends.worker import WorkerStatus
from nemo_runspec.errors import UserError
from nemo_runspec.records import JobStore, Launcher, refresh
from nemo_runspec.records.facts import JobFacts
from nemo_runspec.records.process import Life, is_alive, life_of, machine, process_of, this_process
from nemo_runspec.records.settle import settled

HOST = os.uname().nodename
RUNNING = ("planned", "starting", "running")
MARKER = "node=0\nhost=h\nphase=command\nexit_code=3\nsignal=\nrank=0\noom=0\nreceived=\nreason=\nstarted=5\nended=9\n"


@pytest.fixture
def store(tmp_path):
    return JobStore(tmp_path / "jobs")


@pytest.fixture
def probe(monkeypatch):
    """An executor `probe` whose worker finds whatever `answers["look"]` returns or raises; so for its other parts."""
    asked = []

    class Worker:
        def status(self, record, folder):
            asked.append(record.name)
            return answers["look"]()

        def settle(self, record, folder):
            answers["settled"].append(text_of_folder(folder))
            return answers["settle"]()

        def clear(self, record, folder):
            answers["cleared"].append(text_of_folder(folder))
            answers["clear"]()

    answers = {
        "asked": asked, "settled": [], "cleared": [], "settle": lambda: True, "clear": lambda: None,
    }  # fmt: skip
    module = types.ModuleType("probe_backend")
    module.Worker = Worker
    module.BACKEND = Backend("probe", False, (), "", "", worker="probe_backend:Worker")
    monkeypatch.setitem(sys.modules, "probe_backend", module)
    monkeypatch.setitem(backends.BUILTIN, "probe", "probe_backend")
    get_backend.cache_clear()
    yield answers
    get_backend.cache_clear()


def elsewhere(boot="another-boot", space=None):
    own = machine().partition(" ")
    return replace(this_process(), machine=f"{boot or own[0]} {space or own[2]}")


def mark(store, name):
    status = store.folder(name) / "status"
    status.mkdir()
    (status / "node-0").write_text(MARKER)


def text_of(store, name):
    return text_of_folder(store.folder(name))


def text_of_folder(folder):
    return (folder / "record.json").read_text()


@pytest.mark.parametrize(
    ("process", "host", "life"),
    [
        (this_process(), HOST, Life.ALIVE),
        (gone(), HOST, Life.DEAD),
        (elsewhere(), HOST, Life.RESTARTED),
        (elsewhere(), "other-host", Life.OTHER_MACHINE),
        (elsewhere(boot=None, space="pid:[1]"), HOST, Life.OTHER_CONTAINER),
        (Launcher(1, "1", "a-mac"), HOST, Life.OTHER_MACHINE),
    ],
)
def test_what_can_be_said_of_a_process(process, host, life):
    assert life_of(process, host) is life


def test_a_job_of_before_a_restart_is_lost(store):
    stored(store, record("job", RUNNING, launcher=elsewhere(), host=HOST))
    found = settled(store, "job")
    assert found.state == "lost"
    assert "the machine was restarted" in found.reason
    assert "restarted" in text_of(store, "job")


def test_a_job_of_before_a_restart_that_left_a_marker_has_ended(store):
    stored(store, record("job", RUNNING, launcher=elsewhere(), host=HOST))
    mark(store, "job")
    found = settled(store, "job")
    assert (found.state, found.exit_code) == ("failed", 3)


@pytest.mark.parametrize(
    ("launcher", "host", "why"),
    [(elsewhere(), "other-host", "started on other-host"), (elsewhere(None, "pid:[1]"), HOST, "another container")],
)
def test_what_is_elsewhere_is_unknown_and_stays_as_it_was_written(store, launcher, host, why):
    stored(store, record("job", RUNNING, launcher=launcher, host=host))
    before = text_of(store, "job")
    found = settled(store, "job")
    assert found.state == "unknown"
    assert why in found.reason
    assert text_of(store, "job") == before


@pytest.mark.parametrize(
    ("seen", "state", "code"),
    [
        (WorkerStatus("running", "its container runs"), "running", None),
        (WorkerStatus("failed", "out of memory", 137), "failed", 137),
        (WorkerStatus("succeeded", exit_code=0), "succeeded", 0),
        (WorkerStatus("lost", "its container was removed"), "lost", None),
        (WorkerStatus("odd"), "unknown", None),
    ],
)
def test_the_backend_is_asked_when_the_supervisor_is_dead(store, probe, seen, state, code):
    stored(store, record("job", RUNNING, executor="probe", launcher=gone(), container="c0ffee"))
    probe["look"] = lambda: seen
    for _ in range(3):
        found = settled(store, "job")
        assert (found.state, found.exit_code) == (state, code)
    written = state in ("failed", "succeeded", "lost")
    assert len(probe["asked"]) == (1 if written else 3)
    assert (store.entries()[0].state, store.list()[0].state) == (state, state)
    if state == "failed":
        assert found.cause == "out of memory"


@pytest.mark.parametrize(
    "seen", [WorkerStatus("failed", "container x ended with exit code 0", 1), WorkerStatus("lost", absent=True)]
)
def test_a_job_that_ends_while_it_is_looked_at_is_what_its_marker_says(store, probe, seen):
    """The marker was not there before its backend was asked; by the time that has answered, the job has ended."""
    stored(store, record("job", RUNNING, executor="probe", launcher=gone()))

    def ends() -> WorkerStatus:
        mark(store, "job")
        return seen

    probe["look"] = ends
    found = settled(store, "job")
    assert (found.state, found.exit_code, found.cause) == ("failed", 3, "rank 0 ended with exit code 3")


def test_an_engine_that_does_not_have_it_is_believed_after_three_looks_over_a_minute(store, probe, monkeypatch):
    """Of separate processes, each by what is on record; one look that finds it undoes them."""
    clock = [1e9]
    monkeypatch.setattr(refresh, "time", SimpleNamespace(time=lambda: clock[0]))
    stored(store, record("job", RUNNING, executor="probe", launcher=gone(), container="c0ffee"))

    def look(seen, seconds):
        clock[0] += seconds
        probe["look"] = lambda: seen
        return settled(JobStore(store.root), "job")

    away = WorkerStatus("lost", "its container is gone", absent=True)
    assert [look(away, seconds).state for seconds in (0, 1, 31)] == ["unknown"] * 3
    found = look(WorkerStatus("running", "its container runs"), 31)
    assert (found.state, found.facts) == ("running", JobFacts())
    assert [look(away, seconds).state for seconds in (0, 31, 31)] == ["unknown", "unknown", "lost"]
    assert "its container is gone" in settled(store, "job").reason


@pytest.mark.parametrize("error", [UserError("no engine here"), OSError(13, "Permission denied"), RuntimeError("bug")])
def test_a_look_that_fails_is_unknown_with_its_reason(store, probe, error):
    def fail():
        raise error

    probe["look"] = fail
    stored(store, record("job", RUNNING, executor="probe", launcher=gone()))
    stored(store, record("other", (*RUNNING, "succeeded"), exit_code=0))
    found = settled(store, "job")
    assert found.state == "unknown"
    assert str(getattr(error, "what", error)) in found.reason
    assert {r.name for r in store.list()} == {"job", "other"}


def test_the_backend_is_not_asked_without_need(store, probe):
    stored(store, record("ended", (*RUNNING, "failed"), executor="probe", launcher=gone(), exit_code=1))
    stored(store, record("lost", (*RUNNING, "lost"), executor="probe", launcher=gone()))
    stored(store, record("alive", RUNNING, executor="probe", launcher=this_process()))
    stored(store, record("marked", RUNNING, executor="probe", launcher=gone()))
    stored(store, record("elsewhere", RUNNING, executor="probe", launcher=elsewhere(), host=HOST))
    mark(store, "marked")
    found = {r.name: r.state for r in store.list()}
    assert found == {"ended": "failed", "lost": "lost", "alive": "running", "marked": "failed", "elsewhere": "lost"}
    assert probe["asked"] == []


def test_an_executor_that_is_no_longer_there_is_unknown(store):
    stored(store, record("job", RUNNING, executor="gone-plugin", launcher=gone()))
    assert "unknown executor 'gone-plugin'" in settled(store, "job").reason


@pytest.mark.parametrize("executor", ["slurm", "dgxcloud", "lepton"])
def test_a_job_of_another_machine_is_never_called_lost_from_here(store, executor):
    stored(store, record("job", RUNNING, executor=executor, launcher=gone()))
    assert settled(store, "job").state == "unknown"


def test_a_supervisor_that_wrote_the_end_between_two_looks_is_believed(store, monkeypatch):
    """It lives at the first look, writes the end and is gone at the next: what it wrote counts."""
    supervisor = subprocess.Popen(["sleep", "600"])
    known = process_of(supervisor.pid)
    assert is_alive(known)
    made = stored(store, record("job", RUNNING, launcher=known))
    from nemo_runspec.records import store as module

    def end_meanwhile(found):
        if not found.over:
            supervisor.kill()
            supervisor.wait()
            store.finish(made, "succeeded", exit_code=0)
        return found.over

    monkeypatch.setattr(module, "is_believed", end_meanwhile)
    assert settled(store, "job").state == "succeeded"


def test_a_store_that_cannot_be_written_still_answers(store):
    stored(store, record("job", RUNNING, launcher=gone()))
    (store.folder("job") / ".lock").mkdir()  # what no right to write would do, for root too
    assert settled(store, "job").state == "lost"


def fails(error):
    def fail():
        raise error

    return fail


@pytest.mark.parametrize("marked", [True, False])
def test_the_backend_tidies_up_once_before_and_after_the_end_is_written_down(store, probe, marked):
    stored(store, record("job", RUNNING, executor="probe", launcher=gone()))
    probe["look"] = lambda: WorkerStatus("failed", "by itself", 3)
    if marked:
        mark(store, "job")
    for _ in range(3):
        assert (settled(store, "job").state, store.entries()[0].state) == ("failed", "failed")
    (before,), (after,) = probe["settled"], probe["cleared"]  # reading alone does neither
    assert '"failed"' not in before
    assert '"failed"' in after
    assert after == text_of(store, "job")


def test_a_job_of_which_something_still_runs_is_not_over(store, probe):
    stored(store, record("job", RUNNING, executor="probe", launcher=gone()))
    mark(store, "job")
    before = text_of(store, "job")
    probe["settle"] = lambda: False
    found = settled(store, "job")
    assert (found.state, found.exit_code, found.over) == ("running", None, False)
    assert "its log is not yet complete" in found.reason
    assert (text_of(store, "job"), probe["cleared"]) == (before, [])
    probe["settle"] = lambda: True
    assert (settled(store, "job").state, store.entries()[0].state) == ("failed", "failed")


@pytest.mark.parametrize("part", ["settle", "clear"])
@pytest.mark.parametrize("error", [UserError("no engine here"), OSError(13, "Permission denied"), RuntimeError("bug")])
def test_what_cannot_be_tidied_up_is_told_and_hides_nothing(store, probe, part, error):
    stored(store, record("job", RUNNING, executor="probe", launcher=gone()))
    mark(store, "job")
    probe[part] = fails(error)
    for found in (settled(store, "job"), settled(store, "job")):
        assert (found.state, found.exit_code) == ("failed", 3)
        assert str(getattr(error, "what", error)) in found.reason
        assert "exit code 3" in found.reason
    assert len(probe["settled"]) == 1
    assert len(probe["cleared"]) == (part == "clear")


def test_what_cannot_be_written_down_is_not_tidied_up(store, probe):
    stored(store, record("job", RUNNING, executor="probe", launcher=gone()))
    mark(store, "job")
    (store.folder("job") / ".lock").mkdir()
    assert settled(store, "job").state == "failed"
    assert probe["cleared"] == []
