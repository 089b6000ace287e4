"""The question after Ctrl-C, on a real terminal that a process of its own controls."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import LONG, until

from nemo_runspec.remote.prompt import Choice, answer_of

PROGRAM = "from nemo_runspec.remote.prompt import ask; print(ask('job-1').value, flush=True)"
QUESTION = b"detach (d), cancel (c) or go on (Enter)? "


class Terminal:
    """A terminal, and a process that asks on it; its answer is the first line of its standard output."""

    def __init__(self, program: str = PROGRAM) -> None:
        self.keyboard, inside = pty.openpty()
        self.shown = b""
        self.asking = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=inside,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(inside, termios.TIOCSCTTY, 0),
        )
        os.close(inside)

    def wait_for(self, times: int) -> None:
        """Until the question has been asked so often."""
        until(self.look, "the question", lambda shown: shown.count(QUESTION) >= times)

    def look(self) -> bytes:
        """All that has been on the terminal so far."""
        if select.select([self.keyboard], [], [], 0)[0]:
            self.shown += os.read(self.keyboard, 4096)
        return self.shown

    def press(self, keys: bytes) -> None:
        os.write(self.keyboard, keys)

    def answer(self) -> str:
        said, _ = self.asking.communicate(timeout=LONG)
        return said.decode().strip()

    def close(self) -> None:
        self.asking.kill()
        self.asking.wait()
        os.close(self.keyboard)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("d", Choice.DETACH),
        (" Detach \n", Choice.DETACH),
        ("C", Choice.CANCEL),
        ("cancel", Choice.CANCEL),
        ("\n", Choice.GO_ON),
        ("g", Choice.GO_ON),
        ("y", None),
        ("cd", None),
    ],
)
def test_what_a_line_means(line: str, meant: Choice | None):
    assert answer_of(line) is meant


@pytest.mark.parametrize(
    ("keys", "answer"),
    [(b"d\r", "detach"), (b"c\r", "cancel"), (b"\r", "go on"), (b"\x04", "detach"), (b"c\x04\x04", "detach")],
    ids=["d", "c", "Enter", "the end of input", "the end of input amid a line"],
)
def test_one_answer(terminal: Terminal, keys: bytes, answer: str):
    terminal.wait_for(1)
    terminal.press(keys)
    assert terminal.answer() == answer
    assert b"job-1: " + QUESTION in terminal.shown


def test_it_is_asked_until_it_is_answered(terminal: Terminal):
    for asked, keys in enumerate((b"y\r", b"what?\r", b"cancel\r"), 1):
        terminal.wait_for(asked)
        terminal.press(keys)
    assert terminal.answer() == "cancel"


def test_ctrl_c_once_more_detaches(terminal: Terminal):
    """The terminal itself makes the signal of the key."""
    terminal.wait_for(1)
    terminal.press(b"\x03")
    assert terminal.answer() == "detach"


def test_what_was_typed_before_is_no_answer(tmp_path: Path):
    go = tmp_path / "go"
    early = Terminal(f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.05)\n{PROGRAM}")
    early.press(b"c\r")
    until(early.look, "the key's echo", lambda shown: b"c" in shown)  # keys take a way of their own to a terminal
    go.touch()
    early.wait_for(1)
    early.press(b"d\r")
    assert early.answer() == "detach"
    early.close()


def test_a_terminal_that_goes_away_detaches():
    gone = Terminal(f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); {PROGRAM}")
    gone.wait_for(1)
    os.close(gone.keyboard)
    assert gone.answer() == "detach"


def test_in_the_background_it_does_not_ask():
    """Reading would stop the process, as one that a shell started with `&`."""
    background = Terminal(
        "import os, signal\n"
        "signal.signal(signal.SIGTTOU, signal.SIG_IGN)\n"
        "child = os.fork()\n"
        f"if child: os.waitpid(child, 0)\nelse: os.setpgrp(); {PROGRAM}"
    )
    assert background.answer() == "detach"
    background.close()


def test_without_a_terminal_it_does_not_ask():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
    )
    assert (done.stdout, done.stderr) == ("detach\n", "")


def test_a_signal_from_elsewhere_is_ctrl_c_too(terminal: Terminal):
    terminal.wait_for(1)
    terminal.asking.send_signal(signal.SIGINT)
    assert terminal.answer() == "detach"
