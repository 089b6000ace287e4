"""Runs one command over the shared connection, after a handshake proves that a shell answers."""

from __future__ import annotations

import re
import subprocess
import time

from nemo_runspec.errors import UserError
from nemo_runspec.transport.base import Broken, Unreachable
from nemo_runspec.transport.connection import Connection, Socket
from nemo_runspec.transport.local import spawn
from nemo_runspec.transport.remote import Wrapping
from nemo_runspec.transport.subprocess_io import Exchange, Late
from nemo_runspec.transport.temp_file import Spool

_SSH_FAILED = 255
_TRY_LATER = "check the network and try again"
_REFUSED = re.compile(r"session request failed|Session open refused|open failed: administratively prohibited")


class TooManySessions(Unreachable):
    """The server allows no further session over this connection now."""


class Session:
    """One command over the connection, from its greeting on."""

    def __init__(self, connection: Connection, socket: Socket, wrapping: Wrapping) -> None:
        self._errors, self._log = Spool(), Spool()
        command = connection.command(socket, self._log.path, wrapping.command)
        self._process = spawn(command, self._errors.writer)
        self.exchange = Exchange(self._process)

    def handshake(self, name: str, wrapping: Wrapping, deadline: float, seconds: float | None) -> UserError | None:
        """Waits for the shell's greeting. Returns why there was none, None after one.

        Args:
            deadline: on the monotonic clock.
            seconds: the longest wait, whatever the deadline; None for the deadline alone.
        """
        end = deadline if seconds is None else min(deadline, time.monotonic() + seconds)
        try:
            told = self.exchange.greeting(wrapping.greeting, end)
        except Late:
            return Unreachable(f"{name} did not answer in time; nothing was run there", remedy=_TRY_LATER)
        if told is None:
            return self._silence(name)
        if told == b"none":
            return UserError(
                f"there is no bash on {name}", remedy="install it there, or put it on the PATH of its shell"
            )
        return None

    def _silence(self, name: str) -> UserError:
        words = self.exchange.end()
        said = self.said()
        if _REFUSED.search(said):
            return TooManySessions(
                f"{name} allows no further session over one connection now; nothing was run", remedy=_TRY_LATER
            )
        if self._process.returncode == _SSH_FAILED:
            return Unreachable(f"no connection to {name}; nothing was run there: {said}", remedy=_TRY_LATER)
        words += self._errors.read()
        return UserError(
            f"the login shell of {name} runs no commands: {words.decode('utf-8', 'replace').strip()}",
            remedy="the account needs a shell that runs `sh -c …` given over SSH",
        )

    def errors(self, wrapping: Wrapping) -> bytes:
        """What the script wrote to its error stream, without what came before the greeting."""
        everything = self._errors.read()
        before, mark, after = everything.partition(f"{wrapping.mark}\n".encode())
        return after if mark else before

    def said(self) -> str:
        """ssh's own words."""
        return self._log.read().decode("utf-8", "replace").strip()

    def lost(self, name: str) -> Broken:
        """The error for a status that never came."""
        return Broken(
            f"the connection to {name} was lost under a command; whether it has run is not known",
            where=self.said() or None,
            remedy=_TRY_LATER,
        )

    def kept(self) -> subprocess.Popen[bytes]:
        """The process, for a command that goes on."""
        self._log.close()
        return self._process.handed_on(self._errors)

    def close(self) -> None:
        """Ends the process where it still runs."""
        self.exchange.end()
        self._log.close()
        self._errors.close()
