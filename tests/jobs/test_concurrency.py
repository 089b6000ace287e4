"""Several processes change the same records: none undoes another's change, and an end stays as it is."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading

import pytest
from job_records import gone
from job_scripts import plan_for

from nemo_runspec.errors import UserError
from nemo_runspec.locks import Busy
from nemo_runspec.records import JobEnded, JobStore
from nemo_runspec.records.lock import locked
from nemo_runspec.records.process import this_process
from nemo_runspec.records.settle import settled

PROCESSES = 6


def in_processes(work, number=PROCESSES):
    """Runs `work(n)` in that many processes that start together; what each of them returned, as a number."""
    gate_out, gate_in = os.pipe()
    children = []
    for n in range(number):
        child = os.fork()
        if child == 0:
            code = 255
            with contextlib.suppress(BaseException):
                os.close(gate_in)
                os.read(gate_out, 1)
                code = work(n)
            os._exit(code)
        children.append(child)
    os.close(gate_out)
    os.close(gate_in)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


@pytest.fixture
def store(tmp_path):
    return JobStore(tmp_path / "jobs")


@pytest.fixture
def job(store, tmp_path):
    return store.create(plan_for(tmp_path), plan_text="{}", argv=[], launcher=this_process())


@pytest.mark.slow
def test_every_change_of_every_process_is_kept(store, job):
    running = store.transition(job, "running")

    def toggle(n):
        done = 0
        for _ in range(40):
            for state in ("queued", "running"):
                with contextlib.suppress(ValueError):
                    store.transition(running, state, f"by {n}")
                    done += 1
        return done

    done = in_processes(toggle)
    assert all(0 < n < 255 for n in done), done
    states = [t.state for t in store.get(job.name).states]
    assert len(states) == 2 + sum(done)
    assert not [s for s, after in itertools.pairwise(states) if s == after]


@pytest.mark.slow
def test_one_end_wins_and_stays(store, tmp_path):
    for turn in range(30):
        record = store.create(plan_for(tmp_path, name=f"job-{turn}"), plan_text="{}", argv=[], launcher=this_process())

        def finish(n, record=record):
            try:
                store.finish(record, "succeeded" if n % 2 else "cancelled", exit_code=n, cause=f"by {n}")
            except JobEnded as late:
                return 100 if late.record.cause.startswith("by ") else 101
            return n

        codes = in_processes(finish)
        winners = [code for code in codes if code < PROCESSES]
        assert len(winners) == 1, codes
        assert codes.count(100) == PROCESSES - 1
        found = store.get(record.name)
        assert (found.exit_code, found.cause) == (winners[0], f"by {winners[0]}")


def test_a_stale_record_in_hand_undoes_nothing(store, job):
    running = store.transition(job, "running", process=this_process(), container="c0ffee")
    finished = store.finish(job, "succeeded", exit_code=0, metrics={"loss": 1.5})
    assert (finished.process, finished.container) == (running.process, "c0ffee")
    with pytest.raises(JobEnded, match="succeeded cannot become cancelled") as late:
        store.finish(running, "cancelled", exit_code=143)
    assert late.value.record == finished == store.get(job.name)


@pytest.mark.slow
def test_a_name_is_made_by_one_process_only(store, tmp_path):
    for turn in range(20):
        plan = plan_for(tmp_path, name=f"job-{turn}")

        def create(n, plan=plan):
            try:
                store.create(plan, plan_text="{}", argv=[str(n)])
            except UserError as error:
                return 100 if "exists already" in str(error) else 101
            return n

        codes = in_processes(create)
        winners = [code for code in codes if code < PROCESSES]
        assert len(winners) == 1, codes
        assert codes.count(100) == PROCESSES - 1
        assert store.get(plan.name).argv == (str(winners[0]),)
        assert not list(store.root.glob(".*"))


@pytest.mark.slow
def test_readers_see_whole_records_while_one_writes(store, job):
    stop = threading.Event()

    def write():
        record = job
        for n in range(400):
            record = store.transition(record, "queued" if n % 2 else "running", "x" * (n * 7 % 3000))
        stop.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = 0
    while not stop.is_set():
        states = len(store.get(job.name).states)
        assert states >= seen
        seen = states
    writer.join()
    assert len(store.get(job.name).states) == 401


def test_the_truth_is_written_down_once(store, tmp_path):
    record = store.create(plan_for(tmp_path), plan_text="{}", argv=[], launcher=gone())
    store.transition(record, "running")
    assert in_processes(lambda n: 0 if settled(store, record.name).state == "lost" else 1) == [0] * PROCESSES
    assert [t.state for t in store.get(record.name).states] == ["planned", "running", "lost"]
    assert '"lost"' in (store.folder(record.name) / "record.json").read_text()


def test_a_busy_job_can_be_read(store, tmp_path):
    record = store.create(plan_for(tmp_path), plan_text="{}", argv=[], launcher=gone())
    store.transition(record, "running")
    with locked(store.folder(record.name)):
        assert store.get(record.name).state == "lost"
        with pytest.raises(Busy), locked(store.folder(record.name), wait=False):
            pass
    assert '"lost"' not in (store.folder(record.name) / "record.json").read_text()


def test_who_waits_for_a_job_that_is_removed_is_told_so(store, job):
    store.finish(job, "failed", exit_code=1)
    outcome = []

    def late():
        try:
            with locked(store.folder(job.name)):
                outcome.append("locked")
        except FileNotFoundError:
            outcome.append("gone")

    waiting = threading.Thread(target=late)

    def check(_record):
        waiting.start()

    store.remove(job.name, check)
    waiting.join()
    assert outcome == ["gone"]
    with pytest.raises(FileNotFoundError):
        store.transition(job, "running")
    assert not store.exists(job.name)
