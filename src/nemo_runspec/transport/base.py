"""A machine that commands run on, and what a command said. The rest of nemotron knows machines only as this."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import Protocol

from nemo_runspec.errors import UserError


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
        """Its last words: the error stream's, else the output's, without blank lines at the end."""
        return (self.err or self.out).decode("utf-8", "replace").strip()


class Unreachable(UserError):
    """The machine did not answer. `transient`: trying again later may help."""

    transient = True


class Host(Protocol):
    """One machine. Every call is one round trip.

    Attributes:
        name: for a person, such as `me@login.example.com`.
        key: what tells machines apart: jobs with the same key are asked about together.
    """

    name: str
    key: str

    def run(self, script: str, *, data: bytes = b"", timeout: float = 60.0) -> Done:
        """Runs a bash script there. `data` is its standard input; nothing secret may stand in the script itself.

        Args:
            timeout: seconds.

        Raises:
            Unreachable: no connection, or it broke; whether the script has run is not known then.
            UserError: the machine refuses us (a key, a host key), with the mend.
        """

    def start(self, script: str) -> subprocess.Popen[bytes]:
        """Starts a script that goes on, its output in a pipe, its input closed. Ends with `kill` on it.

        Raises:
            Unreachable: as `run`.
        """

    def close(self) -> None:
        """Gives the connection back."""
