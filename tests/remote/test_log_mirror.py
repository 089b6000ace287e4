"""A job's log on this machine: every byte once, in whole lines, whoever fetches and whoever is killed meanwhile."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from waiting import LONG, until

from nemo_runspec.backends.slurm.client import SlurmProvider
from nemo_runspec.errors import UserError
from nemo_runspec.remote.log_mirror import Mirror
from nemo_runspec.transport.base import Unreachable

FETCH = """
import os, signal, sys
from pathlib import Path
from nemo_runspec.backends.slurm.client import SlurmProvider
from nemo_runspec.remote.log_mirror import Mirror
there, here, dies_at = sys.argv[1:]
def watch(event, args):
    if event == dies_at and "fetched.json" in str(args[0]):
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(watch)
handle = {"tunnel": "local", "id": "7", "name": "job", "job_dir": there}
mirror = Mirror(SlurmProvider(), handle, Path(here))
while not (Path(there) / "over").exists():
    mirror.fetch(limit=4096)
    (Path(there) / f"fetched-{os.getpid()}").touch()
"""


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """The job's directory; its logs are read with the cluster's own errand, from this machine."""
    folder = tmp_path / "there"
    folder.mkdir()
    return folder


@pytest.fixture
def mirror(there: Path, tmp_path: Path) -> Mirror:
    handle = {"tunnel": "local", "id": "7", "name": "job", "job_dir": str(there)}
    return Mirror(SlurmProvider(), handle, tmp_path / "here")


def log_of(there: Path, attempt: int = 0, task: int = 0) -> Path:
    return there / f"log-job_7_{attempt}_{task}.out"


def numbered(rank: int, lines: int = 200) -> bytes:
    return b"".join(b"[rank%d] %d %s\n" % (rank, number, b"x" * (number % 50)) for number in range(lines))


@pytest.mark.slow
@pytest.mark.parametrize("limit", [80, 97, 1000, 1 << 20])
def test_lines_of_several_files_never_mix(mirror, there, limit):
    """Wherever an answer is cut, while the first file grows and the second waits for room, and once the job is over."""
    log_of(there, task=1).write_bytes(numbered(1))
    whole = numbered(0)
    with log_of(there, task=0).open("wb", buffering=0) as file:
        for start in range(0, len(whole), 163):
            file.write(whole[start : start + 163])
            mirror.fetch(limit=limit)
    while mirror.fetch(last=True, limit=limit)[1]:
        pass
    lines = mirror.log.read_bytes().splitlines(keepends=True)
    for rank in (0, 1):
        assert b"".join(line for line in lines if line.startswith(b"[rank%d]" % rank)) == numbered(rank)
    assert len(lines) == 400


def test_a_line_waits_for_its_end(mirror, there):
    log_of(there).write_bytes(b"one\ntw")
    assert mirror.fetch() == (4, False)
    assert mirror.fetch() == (0, False)
    assert mirror.log.read_bytes() == b"one\n"
    log_of(there).write_bytes(b"one\ntwo")
    log_of(there, attempt=1).write_bytes(b"again\n")
    mirror.fetch()
    assert mirror.log.read_bytes() == b"one\nagain\n"
    mirror.fetch(last=True)
    assert mirror.log.read_bytes() == b"one\nagain\ntwo"


def test_a_line_longer_than_an_answer(mirror, there):
    log_of(there).write_bytes(b"y" * 1000)
    while mirror.fetch(limit=300)[0]:
        pass
    assert mirror.log.read_bytes() == b"y" * 900, "the rest is shorter than an answer: its end is still to come"
    mirror.fetch(last=True)
    assert mirror.log.read_bytes() == b"y" * 1000


@pytest.mark.parametrize("dies_at", ["open", "os.rename"])
def test_killed_before_it_is_noted(mirror, there, tmp_path, dies_at):
    """What a killed process has added without a note is cut off, and fetched again."""
    log_of(there).write_bytes(numbered(0, 50))
    mirror.fetch()
    log_of(there).write_bytes(numbered(0, 100))
    words = [sys.executable, "-c", FETCH, str(there), str(tmp_path / "here")]
    for event in (dies_at, "os.rename"):
        assert subprocess.run([*words, event], timeout=LONG).returncode == -signal.SIGKILL
    assert mirror.log.read_bytes() == numbered(0, 100)
    assert mirror.fetch()[0] == len(numbered(0, 100)) - len(numbered(0, 50))
    assert mirror.log.read_bytes() == numbered(0, 100)


@pytest.mark.slow
def test_several_fetch_while_it_grows(mirror, there, tmp_path):
    """Four processes follow one job: its log is there once."""
    words = [sys.executable, "-c", FETCH, str(there), str(tmp_path / "here"), "never"]
    fetching = [subprocess.Popen(words) for _ in range(4)]
    until(lambda: len(list(there.glob("fetched-*"))) == len(fetching), "their first look")
    whole = numbered(0, 3000)
    with log_of(there).open("wb", buffering=0) as file:
        for start in range(0, len(whole), 5000):
            file.write(whole[start : start + 5000])
            time.sleep(0.02)
    (there / "over").touch()
    assert [process.wait(LONG) for process in fetching] == [0] * 4
    while mirror.fetch(last=True)[1]:
        pass
    assert mirror.log.read_bytes() == whole


def test_what_cannot_be_fetched_changes_nothing(mirror, there, monkeypatch):
    log_of(there).write_bytes(b"one\n")
    mirror.fetch()

    def refuse(*_: object, **__: object) -> None:
        raise Unreachable("no answer")

    monkeypatch.setattr(mirror.provider, "read_log", refuse, raising=False)
    with pytest.raises(UserError, match="no answer"):
        mirror.fetch(last=True)
    assert mirror.log.read_bytes() == b"one\n"
    assert mirror.end(3) == b"ne\n"
