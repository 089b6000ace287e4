"""How a job is stopped, and how it goes on without whoever started it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import pytest
from waiting import line_of, until

from behaviour.bench import finish

PATIENT = """
    import signal, time
    def stop(*_):
        print("got TERM", flush=True)
        raise SystemExit(9)
    signal.signal(signal.SIGTERM, stop)
    print("ready", flush=True)
    while True:
        time.sleep(0.1)
"""
STUBBORN = """
    import signal, subprocess, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["bash", "-c", "trap '' TERM; while :; do sleep 1; done"])
    print("ready", flush=True)
    while True:
        time.sleep(0.1)
"""
LATER = """
    print("ready", flush=True)
    wait_for_word()
    print("the last line", flush=True)
    raise SystemExit(3)
"""


@pytest.mark.slow
def test_interrupt(bench):
    """Ctrl-C asks the job to stop: it sees a TERM, nemotron exits with 130, and nothing is left running."""
    process = bench.start(PATIENT)
    assert b"ready" in line_of(process.stdout)
    process.send_signal(signal.SIGINT)
    ended = finish(process)
    assert (ended.code, "got TERM" in ended.out) == (130, True), ended.err
    assert bench.show("last")["state"] == "cancelled"
    assert bench.leftovers(bench.newest()) == []


@pytest.mark.slow
def test_cancel(bench):
    """`jobs cancel` asks the job to stop with a TERM; it ends as cancelled, and nothing is left running."""
    name = bench.detached(PATIENT)
    bench.log_has(name, "ready")
    bench.nemotron("jobs", "cancel", name, "--grace", "60").succeeds()
    assert bench.log_lines(name) == ["ready", "got TERM"]
    assert bench.show(name)["state"] == "cancelled"
    assert bench.leftovers(name) == []


@pytest.mark.slow
def test_cancel_of_a_job_that_does_not_listen(bench):
    """A job that does not stop within its grace is killed with all it has started."""
    name = bench.detached(STUBBORN)
    bench.log_has(name, "ready")
    bench.nemotron("jobs", "cancel", name, "--grace", "1").succeeds()
    assert bench.show(name)["state"] == "cancelled"
    assert bench.leftovers(name) == []


@pytest.mark.slow
def test_cancel_twice(bench):
    """Cancelling a job that has ended changes nothing."""
    name = bench.detached("raise SystemExit(3)")
    assert bench.wait(name) == 3
    before = bench.show(name)
    bench.nemotron("jobs", "cancel", name)
    assert bench.show(name) == before


@pytest.mark.slow
def test_detach(bench):
    """`--batch` returns while the job runs; `jobs wait` gives its exit code and `jobs logs` all of its output."""
    name = bench.detached(LATER)
    assert bench.show(name)["state"] not in ("succeeded", "failed", "lost")
    bench.give_word(name)
    assert bench.wait(name) == 3
    assert bench.log_lines(name) == ["ready", "the last line"]
    assert (bench.show(name)["state"], bench.show(name)["exit_code"]) == ("failed", 3)
    assert bench.leftovers(name) == []


@pytest.mark.slow
def test_launcher_killed(bench):
    """A detached job goes on when its launcher and the terminal's session are killed with -9."""
    process = bench.start(LATER, way="--batch")
    jobs = until(lambda: bench.nemotron("jobs", "list", "--json").json, "it", lambda jobs: on_its_own(bench, jobs), 300)
    with suppress(ProcessLookupError):  # the launcher may have ended already
        os.killpg(process.pid, signal.SIGKILL)
    finish(process)
    name = jobs[0]["name"]
    bench.give_word(name)
    assert bench.wait(name) == 3
    assert bench.log_lines(name) == ["ready", "the last line"]


def on_its_own(bench, jobs) -> bool:
    """Whether the one job there is needs its launcher no more; before that, tests/remote has its launcher killed."""
    return bool(jobs) and jobs[0]["state"] not in bench.rig.needs_launcher


@pytest.mark.slow
def test_waited_for_by_several(bench):
    """Several can wait for one job; each gets its exit code, whether they came before or after its end."""
    name = bench.detached(LATER)
    waiting = [bench.started("jobs", "wait", name) for _ in range(2)]
    bench.give_word(name)
    assert [finish(process).code for process in waiting] == [3, 3]
    assert bench.wait(name) == 3
