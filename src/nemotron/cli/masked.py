"""Standard output and errors of the command line: nothing that a text itself calls a secret is shown on them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any


class Masked:
    """A text stream whose texts go through `redact.mask`. All else is the stream's own; a job's log is bytes, and goes
    through its own filter.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes a text, which holds whole words."""
        from nemo_runspec.redact import mask

        self._stream.write(mask(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes several."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def mask_streams() -> None:
    """Puts standard output and errors of this process behind a mask."""
    for name in ("stdout", "stderr"):
        if not isinstance(getattr(sys, name), Masked):
            setattr(sys, name, Masked(getattr(sys, name)))
