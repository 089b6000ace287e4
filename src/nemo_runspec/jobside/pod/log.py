"""Copies what is written in a pod to the platform's own stream and to the node's file."""

import os
import threading

from nemo_runspec.jobside.clock import within
from nemo_runspec.jobside.output import READ, enlarge, lines_in, write_all

MYPY = False
if MYPY:
    from typing import Optional, Union


class Log:
    """The pod's standard output and error from `begin` on: each line once in both places.

    Args:
        path: the node's file, which is appended to.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._platform = os.dup(1)
        self._file = -1
        self._last = b"\n"
        self._lines = 0
        self._over = False
        self._lock = threading.Lock()
        self._ended = False

    def begin(self) -> bool:
        """Takes over standard output and error; whether the file can be kept, without which all goes one way."""
        try:
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:
            os.dup2(1, 2)
            return False
        source, end = os.pipe()
        enlarge(end)
        os.dup2(end, 1)
        os.dup2(end, 2)
        os.close(end)
        threading.Thread(target=self._copy, args=(source,), daemon=True).start()
        return True

    @property
    def lines(self) -> "Optional[int]":
        """How many lines this pod has written, None where no file has them."""
        return self._lines if self._file >= 0 else None

    def line(self, text: str) -> None:
        """Writes a line that stands alone in both places, and counts as one."""
        with self._lock:
            if self._last != b"\n":
                self._give(b"\n")
            self._give((text + "\n").encode("utf-8", "surrogateescape"))

    def end(self, patience: float) -> None:
        """Gives standard output and error back, once all that was written has been passed on.

        Args:
            patience: seconds that it waits; a process that was left behind may hold the pipe open.
        """
        os.dup2(self._platform, 1)
        os.dup2(self._platform, 2)
        if self._file >= 0:
            within(patience, lambda: self._ended)
        with self._lock:
            self._over = True

    def _copy(self, source: int) -> None:
        buffer = bytearray(READ)
        while True:
            count = os.readv(source, [buffer])
            with self._lock:
                if not count or self._over:
                    break
                self._give(buffer[:count])
        self._ended = True

    def _give(self, text: "Union[bytes, bytearray]") -> None:
        self._last = bytes(text[-1:])
        self._lines += lines_in(text)
        for target in (self._platform, self._file):
            try:
                if target >= 0:
                    write_all(target, text)
            except BrokenPipeError:
                continue  # nobody reads the platform's stream any more: the file has it
