"""This machine, where it submits jobs itself."""

from __future__ import annotations

import io
import itertools
import os
import signal
import subprocess
import threading
import time
from contextlib import closing, suppress
from functools import partial
from typing import IO, cast

from nemo_runspec.errors import UserError
from nemo_runspec.tracing import asked, programs_of
from nemo_runspec.transport import remote
from nemo_runspec.transport.base import Broken, Data, Done
from nemo_runspec.transport.master import no_ssh
from nemo_runspec.transport.subprocess_io import Exchange, Late, blocks
from nemo_runspec.transport.temp_file import Spool


class Started(subprocess.Popen[bytes]):
    """A script that goes on. Its input is its life line: the script ends when this end of it is closed."""

    def terminate(self) -> None:
        """Asks the script, and what it has started, to end."""
        self._let_go(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the process that carries the script, which is asked first where it goes on."""
        self._let_go(signal.SIGKILL)

    def handed_on(self, errors: Spool) -> Started:
        """Itself, for a caller to read from: a buffered output, and what came to the error stream."""
        assert self.stdout is not None
        self.stdout = io.BufferedReader(cast("io.RawIOBase", self.stdout), _BLOCK)
        self.stderr = errors.handed_on()
        return self

    def _let_go(self, number: int) -> None:
        if self.stdin is not None:
            with suppress(OSError):
                self.stdin.close()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)


_BLOCK = 1 << 18


class LocalHost:
    """Runs scripts with this machine's bash, each in a session of its own, out of reach of the terminal's Ctrl-C."""

    name = "this machine"
    key = "local"

    def __init__(self) -> None:
        self._counting = threading.Lock()
        self.calls = 0

    def run(self, script: str, *, data: Data = b"", timeout: float = 60.0) -> Done:
        """As `Host.run`."""
        self._count()
        with asked(self.name, partial(programs_of, script)) as question, closing(Spool()) as errors:
            exchange = Exchange(spawn(["bash", "-c", remote.HERE], errors.writer))
            try:
                out = exchange.finish(
                    itertools.chain((remote.framed(script),), blocks(data)), time.monotonic() + timeout
                )
            except Late:
                raise took_too_long(self.name, timeout) from None
            finally:
                if exchange.cut_short:
                    exchange.process.kill()
            code = status_of(exchange.process.returncode)
            question.answer = f"exit code {code}"
            return Done(code, out, errors.read())

    def start(self, script: str) -> subprocess.Popen[bytes]:
        """As `Host.start`."""
        self._count()
        errors = Spool()
        process = spawn(["bash", "-c", remote.STARTED_HERE], errors.writer)
        Exchange(process).send(remote.framed(script))
        return process.handed_on(errors)

    def _count(self) -> None:
        with self._counting:
            self.calls += 1

    def close(self) -> None:
        """Nothing is held."""


def spawn(command: list[str], errors: IO[bytes]) -> Started:
    """A process in a session of its own, with unbuffered pipes.

    Raises:
        UserError: there is no such program.
    """
    try:
        return Started(
            command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
    except FileNotFoundError:
        if command[0] == "ssh":
            raise no_ssh() from None
        raise UserError(f"there is no {command[0]} on this machine", remedy=f"install {command[0]}") from None


def took_too_long(name: str, timeout: float) -> Broken:
    """What is said when a command has not ended in time."""
    return Broken(
        f"{name} did not end a command within {timeout:g} s; whether it has run is not known",
        remedy="look at the machine's load and file systems, then try again",
    )


def status_of(code: int) -> int:
    """A Popen's return code as a shell tells it: 128 and more for a signal."""
    return 128 - code if code < 0 else code
