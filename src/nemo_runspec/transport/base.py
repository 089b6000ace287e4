"""A machine that commands run on, and what a command said. The rest of nemotron knows machines only as this."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from nemo_runspec.errors import UserError
from nemo_runspec.lines import text_lines
from nemo_runspec.transport.chatter import without_chatter

_MOST = 2000
"""Characters of a command's last words, which a person is to read."""

Data = bytes | Iterable[bytes]
"""A command's standard input: whole, or in blocks that are asked for once the command has begun."""


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended. `code`: its exit status; `out`, `err`: what it wrote."""

    code: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        """What it wrote to its output, as text."""
        return self.out.decode("utf-8", "replace")

    @property
    def said(self) -> str:
        """Its last words: the error stream's, else the output's, without what says nothing (see `chatter`)."""
        streams = (text_lines(stream.decode("utf-8", "replace")) for stream in (self.err, self.out))
        words = next(("\n".join(lines).strip() for lines in map(without_chatter, streams) if lines), "")
        return words[-_MOST:]


class Unreachable(UserError):
    """The machine did not answer. `transient`: trying again later may help.

    Nothing was run there, unless it is a `Broken`.
    """

    transient = True


class Broken(Unreachable):
    """The connection was lost, or the time was up, under a command: whether it has run is not known."""


class Host(Protocol):
    """One machine. Every call is one round trip.

    Attributes:
        name: for a person, such as `me@login.example.com`.
        key: what tells machines apart: jobs with the same key are asked about together.
        calls: how many round trips there have been.
    """

    name: str
    key: str
    calls: int

    def run(self, script: str, *, data: Data = b"", timeout: float = 60.0) -> Done:
        """Runs a bash script there. `data` is its standard input; nothing secret may stand in the script itself.

        A script whose connection breaks sees its input end early: what must be whole is sent by `files.put`.

        Args:
            timeout: seconds.

        Raises:
            Unreachable: no connection; nothing was run. A `Broken`: whether the script has run is not known.
            UserError: the machine refuses us (a key, a host key), with the mend.
        """

    def start(self, script: str) -> subprocess.Popen[bytes]:
        """Starts a script that goes on, its output in a pipe, its input closed. Ends with `kill` on it, there too.

        It also ends when the connection does, or this process. The exit status is its own; 255 is a lost connection.
        What it wrote to its error stream can be read from `stderr`, a file, once it has ended.

        Raises:
            Unreachable: as `run`.
        """

    def close(self) -> None:
        """Gives the connection back."""
