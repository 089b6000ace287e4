"""A terminal for the commands of these tests."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from contextlib import suppress

import pytest


@pytest.fixture
def terminal(project):
    """`terminal(*words, rows=, columns=, **environment)`: exit code and screen of a command on a terminal."""

    def run(*words, rows=24, columns=80, **environment):
        keyboard, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        child = subprocess.Popen(
            [sys.executable, "-m", "nemotron", *words],
            cwd=project.folder,
            env=project.environment(**{"TERM": "xterm", "NO_COLOR": "1", **environment}),
            stdin=inside,
            stdout=inside,
            stderr=inside,
        )
        os.close(inside)
        seen = b""
        with suppress(OSError):  # EIO: nobody has the terminal open any more
            while block := os.read(keyboard, 1 << 16):
                seen += block
        os.close(keyboard)
        return child.wait(timeout=60), seen.decode().replace("\r\n", "\n")

    return run
