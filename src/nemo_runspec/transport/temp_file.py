"""A nameless file that one process fills while another reads it from its beginning."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO


class Spool:
    """`path` and `writer` are for the process that fills it."""

    def __init__(self) -> None:
        descriptor, name = tempfile.mkstemp(prefix="nemotron-")
        self.path = Path(name)
        self.writer: IO[bytes] = os.fdopen(descriptor, "wb", buffering=0)
        self._reader = self.path.open("rb")

    def read(self) -> bytes:
        """All there is now."""
        self._reader.seek(0)
        return self._reader.read()

    def handed_on(self) -> IO[bytes]:
        """What reads it, from the beginning; the file ends when that is closed."""
        self._forget()
        self._reader.seek(0)
        return self._reader

    def close(self) -> None:
        """Takes it away."""
        self._forget()
        self._reader.close()

    def _forget(self) -> None:
        self.writer.close()
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
