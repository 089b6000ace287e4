"""The input and output of a command that runs elsewhere, for whoever talks with it line by line."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, cast

from nemo_runspec.transport.temp_file import Spool

_LONGEST = 1 << 17
"""Bytes of a line."""
_LAST = 500


class CommandDuplex:
    """A command of this machine that leads there."""

    def __init__(self, command: Sequence[str]) -> None:
        self._errors = Spool()
        self._closed, self._last_words = False, ""
        # In a session of its own: Ctrl-C is for whoever holds this.
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors.writer,
            start_new_session=True,
        )

    def read_line(self) -> bytes:
        """The next line it writes, with its end; empty once it has ended."""
        return cast("IO[bytes]", self._process.stdout).readline(_LONGEST)

    def write(self, data: bytes) -> None:
        """To its input. Raises `OSError` once it has ended."""
        source = cast("IO[bytes]", self._process.stdin)
        source.write(data)
        source.flush()

    def close(self) -> None:
        """Closes its input, which ends it; a command that does not end by that is killed."""
        with suppress(OSError):
            cast("IO[bytes]", self._process.stdin).close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if not self._closed:
            self._closed, self._last_words = True, self.last_words()
            self._errors.close()

    def last_words(self) -> str:
        """What it has said of an error."""
        if self._closed:
            return self._last_words
        return self._errors.read().decode("utf-8", "replace").strip()[-_LAST:]
