"""Starts ssh into the background and hears what it says until it is there."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence

from nemo_runspec.errors import UserError
from nemo_runspec.transport.ssh_errors import for_people

_TICK_S = 0.01
_BLOCK = 1 << 16


def listen(command: Sequence[str], seconds: float, *, show: bool) -> tuple[int | None, str]:
    """Exit status (None: the time was up) and error stream of a program that goes on in the background.

    The stream is heard until the program in the foreground has ended: that in the background keeps it open.

    Args:
        show: what is meant for people is written to our own error stream at once; the program may use the terminal.
    """
    process = _launch(command, own_session=not show)
    assert process.stderr is not None
    heard, deadline = _Heard(show=show), time.monotonic() + seconds
    descriptor = process.stderr.fileno()
    os.set_blocking(descriptor, False)
    try:
        while process.poll() is None and time.monotonic() < deadline:
            select.select([descriptor], [], [], _TICK_S)
            heard.take(descriptor)
        late = process.poll() is None
        heard.take(descriptor)
        return (None if late else process.returncode), heard.text
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


class _Heard:
    def __init__(self, *, show: bool) -> None:
        self._bytes = bytearray()
        self._show = show
        self._shown = 0

    @property
    def text(self) -> str:
        return self._bytes.decode("utf-8", "replace")

    def take(self, descriptor: int) -> None:
        """Takes all there is."""
        while True:
            try:
                block = os.read(descriptor, _BLOCK)
            except BlockingIOError:
                break
            if not block:
                time.sleep(_TICK_S)
                break
            self._bytes += block
        if self._show:
            self._tell()

    def _tell(self) -> None:
        end = self._bytes.rfind(b"\n") + 1
        lines = self._bytes[self._shown : end].decode("utf-8", "replace")
        self._shown = max(end, self._shown)
        for line in for_people(lines):
            print(line, file=sys.stderr, flush=True)


def _launch(command: Sequence[str], *, own_session: bool) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=own_session,
        )
    except FileNotFoundError:
        raise no_ssh() from None


def no_ssh() -> UserError:
    """The error for a machine without OpenSSH's client."""
    return UserError("there is no ssh on this machine", remedy="install OpenSSH's client (Debian: openssh-client)")
