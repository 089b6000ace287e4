"""A log is passed on byte for byte, whole or its end, until the job is over."""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from nemo_runspec.records.follow import follow, show
from nemo_runspec.records.log_view import LogView

LINES = b"".join(b"line %d \xff\x00 of many\r\n" % n for n in range(5000))


def shown(log, tail=None):
    pieces = []
    show(log, pieces.append, tail=tail)
    return b"".join(pieces)


@pytest.fixture
def log(tmp_path):
    return tmp_path / "job.log"


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"a", b"a\n", b"\n\n", b"a\nb", b"a\nb\n", b"x" * 200_000, LINES, LINES + b"end"]
)
@pytest.mark.parametrize("tail", [None, 0, 1, 2, 3, 70, 4999, 5000, 5001, 10**9])
def test_the_last_lines(log, content, tail):
    log.write_bytes(content)
    lines = content.split(b"\n")
    lines = [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    wanted = content if tail is None else b"".join(lines[-tail:] if tail else [])
    assert shown(log, tail) == wanted


def test_no_log_is_an_error(log):
    with pytest.raises(FileNotFoundError):
        shown(log)


def test_what_is_added_is_followed_to_its_last_byte(log):
    dice = random.Random(3)
    whole = dice.randbytes(3_000_000)
    over = threading.Event()

    def write():
        with log.open("wb", buffering=0) as file:
            place = 0
            while place < len(whole):
                step = dice.choice([1, 100, 70_000, 300_000])
                file.write(whole[place : place + step])
                place += step
                if dice.random() < 0.3:
                    time.sleep(dice.random() * 0.01)
        over.set()

    writer = threading.Thread(target=write)
    pieces = []
    writer.start()
    assert follow(log, LogView(pieces.append), over.is_set) is True
    writer.join()
    assert b"".join(pieces) == whole


def test_the_last_words_before_the_end_are_not_missed(log):
    """Written between the last look and the news that the job is over."""
    log.write_bytes(b"first\n")
    looks = []

    def is_over():
        looks.append(1)
        if len(looks) == 4:
            with log.open("ab") as file:
                file.write(b"last\n")
        return len(looks) >= 4

    pieces = []
    follow(log, LogView(pieces.append), is_over)
    assert b"".join(pieces) == b"first\nlast\n"


def test_a_log_that_is_not_there_yet_is_waited_for(log):
    looks = []

    def is_over():
        looks.append(1)
        if len(looks) == 3:
            log.write_bytes(b"hello\n")
        return len(looks) > 5

    pieces = []
    assert follow(log, LogView(pieces.append), is_over) is True
    assert pieces == [b"hello\n"]


def test_a_job_that_never_had_a_log(log):
    assert follow(log, LogView(print), lambda: True) is False


def test_following_from_the_end(log):
    log.write_bytes(LINES)
    looks = []

    def is_over():
        looks.append(1)
        if len(looks) == 3:
            with log.open("ab") as file:
                file.write(b"new\n")
        return len(looks) > 3

    pieces = []
    follow(log, LogView(pieces.append), is_over, tail=0)
    assert b"".join(pieces) == b"new\n"


def open_files():
    """What this process has open, by path. Not their number: what earlier tests have left may be closed meanwhile."""
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            yield str(entry.readlink())


def test_nothing_stays_open(log):
    log.write_bytes(b"x")
    with log.open("rb"):
        assert str(log) in open_files()
    for _ in range(20):
        follow(log, LogView(lambda data: None), lambda: True)
        shown(log)
        with pytest.raises(ZeroDivisionError):
            show(log, lambda data: 1 / 0)
    assert str(log) not in open_files()
