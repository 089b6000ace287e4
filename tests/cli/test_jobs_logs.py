"""`nemotron jobs logs`, as a process: every byte, in any pipe, until the job is over."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys

import pytest
from job_records import gone, record, stored
from waiting import line_of

from nemo_runspec.records import JobStore
from nemo_runspec.records.process import this_process

RUNNING = ("planned", "starting", "running")
BINARY = bytes(range(256)) * 40


@pytest.fixture
def store(project):
    return JobStore(project.state / "jobs")


@pytest.fixture
def logs(project):
    started = []

    def start(*words):
        child = subprocess.Popen(
            [sys.executable, "-m", "nemotron", "jobs", "logs", *words],
            cwd=project.folder,
            env=project.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()
        child.communicate()


def run(logs, *words):
    child = logs(*words)
    out, err = child.communicate(timeout=120)
    return child.returncode, out, err.decode()


def test_bytes_stay_as_they_are(store, logs):
    stored(store, record("job", (*RUNNING, "failed"), exit_code=3, cause="exit code 3"), log=BINARY)
    assert run(logs, "last") == (0, BINARY, "")
    code, out, err = run(logs, "job", "-f")
    assert (code, out) == (0, BINARY)
    assert err == "job: failed, exit code 3\n"
    assert run(logs, "job", "--tail", "1")[1] == BINARY[BINARY.rindex(b"\n") + 1 :]


def test_a_growing_log_is_followed_to_its_end(store, logs):
    made = stored(store, record("job", RUNNING, launcher=this_process()), log=b"")
    child = logs("job", "--follow")
    whole, log = hashlib.sha256(), store.folder("job") / "logs" / "job.log"
    seen = hashlib.sha256()
    with log.open("ab", buffering=0) as file:
        for n in range(60):
            piece = os.urandom(50_000) + b"%d\n" % n
            file.write(piece)
            whole.update(piece)
            seen.update(os.read(child.stdout.fileno(), 1 << 20))
    store.finish(made, "succeeded", exit_code=0)
    rest, err = child.communicate(timeout=120)
    seen.update(rest)
    assert seen.hexdigest() == whole.hexdigest()
    assert child.returncode == 0
    assert b"job: succeeded, exit code 0" in err


def test_ctrl_c_only_stops_following(store, logs):
    stored(store, record("job", RUNNING, launcher=this_process()), log=b"first\n")
    child = logs("job", "-f")
    assert line_of(child.stdout) == b"first\n"
    before = (store.folder("job") / "record.json").read_bytes()
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=120)
    assert child.returncode == 130
    assert err.decode() == "job: no longer followed; the job goes on\n"
    assert (store.folder("job") / "record.json").read_bytes() == before


def test_a_job_that_has_not_started_is_waited_for(store, logs):
    made = stored(store, record("job", ("planned",), launcher=this_process()))
    child = logs("job", "-f")
    assert b"job is planned; its log will be shown once there is one" in line_of(child.stderr)
    log = store.folder("job") / "logs" / "job.log"
    log.parent.mkdir()
    log.write_bytes(b"hello\n")
    assert line_of(child.stdout) == b"hello\n"
    store.finish(store.transition(made, "running"), "succeeded", exit_code=0)
    child.communicate(timeout=120)
    assert child.returncode == 0


def test_a_reader_that_goes_away_is_told_as_of_any_command(store, logs):
    stored(store, record("job", (*RUNNING, "succeeded"), exit_code=0), log=b"line\n" * 2_000_000)
    child = logs("job")
    child.stdout.read(10)
    child.stdout.close()
    assert child.stderr.read() == b""
    assert child.wait(timeout=120) == 141


def test_jobs_without_a_log(store, logs):
    stored(store, record("ended", (*RUNNING, "failed"), exit_code=1))
    stored(store, record("early", ("planned",), launcher=this_process()))
    stored(store, record("lost", RUNNING, launcher=gone()))
    assert run(logs, "ended") == (0, b"", "ended: it left no log\n")
    assert run(logs, "early") == (0, b"", "early: it is planned and has no log yet\n")
    code, out, err = run(logs, "lost", "-f")
    assert (code, out) == (0, b"")
    assert "lost: it left no log" in err
    assert "lost: lost: nemotron was killed" in err
