"""Feeds a process and hears it at the same time, within a time limit."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import IO

from nemo_runspec.transport.base import Data

_BLOCK = 1 << 16
_GRACE_S = 2.0


class Late(Exception):
    """The time was up."""


class Exchange:
    """One process's input and output. Its error stream goes elsewhere.

    Args:
        process: with unbuffered pipes for both.

    Attributes:
        cut_short: the process was ended before it had ended by itself.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.process = process
        self._input: IO[bytes] = process.stdin
        self._output: IO[bytes] = process.stdout
        self._heard = bytearray()
        self.cut_short = False

    def greeting(self, words: bytes, deadline: float) -> bytes | None:
        """The rest of the first line that begins with `words`; None where the output ends without it.

        What comes before it, such as the words of a login script, is dropped.

        Raises:
            Late: after the deadline, in seconds of `time.monotonic`.
        """
        while True:
            begin = self._heard.find(words)
            end = self._heard.find(b"\n", begin + len(words))
            if begin >= 0 and end >= 0:
                rest = bytes(self._heard[begin + len(words) : end])
                del self._heard[: end + 1]
                return rest
            if not self._hear(deadline):
                return None

    def finish(self, data: Data, deadline: float) -> bytes:
        """Sends everything, hears everything, and waits for the process's end; the output.

        Raises:
            Late: after the deadline. The process has been ended then.
        """
        try:
            self._talk(blocks(data), deadline)
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Late from None
        finally:
            self.end()
        return bytes(self._heard)

    def send(self, data: bytes) -> None:
        """Sends a little, and leaves the input open. A process that has ended takes nothing, without a word."""
        with suppress(BrokenPipeError):
            self._input.write(data)

    def end(self) -> bytes:
        """Ends the process where it has not ended; what was heard of it."""
        if self.process.poll() is None:
            self.cut_short = True
            self._stop()
        for stream in (self._input, self._output):
            with suppress(OSError):
                stream.close()
        return bytes(self._heard)

    def _stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _hear(self, deadline: float) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise Late
        return self._take()

    def _take(self) -> bool:
        block = os.read(self._output.fileno(), _BLOCK)
        self._heard += block
        return bool(block)

    def _talk(self, blocks: Iterator[bytes], deadline: float) -> None:
        os.set_blocking(self._input.fileno(), False)
        pending = memoryview(b"")
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            selector.register(self._input, selectors.EVENT_WRITE)
            while True:
                left = deadline - time.monotonic()
                ready = {key.fileobj for key, _ in selector.select(max(0.0, left))}
                # What is sent now would be done and not believed; what has ended may still be heard.
                if left <= 0 and (self._output not in ready or self.process.poll() is None):
                    raise Late
                if self._input in ready and left > 0:
                    more = self._give(pending, blocks)
                    if more is None:
                        selector.unregister(self._input)
                        self._input.close()
                    else:
                        pending = more
                if self._output in ready and not self._take():
                    return

    def _give(self, pending: memoryview, blocks: Iterator[bytes]) -> memoryview | None:
        """Writes what the pipe takes; what is left of the block, or None once there is nothing more to write."""
        if not pending:
            block = next(blocks, None)
            if block is None:
                return None
            pending = memoryview(block)
        try:
            return pending[os.write(self._input.fileno(), pending[:_BLOCK]) :]
        except BlockingIOError:
            return pending
        except BrokenPipeError:
            return None


def blocks(data: Data) -> Iterator[bytes]:
    """The data in its parts, none of them empty."""
    parts: Iterable[bytes] = (data,) if isinstance(data, bytes) else data
    return (part for part in parts if part)
