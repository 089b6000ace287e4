"""gzip with several threads: blocks are compressed each by itself and written one after the other (RFC 1952, 2.2)."""

from __future__ import annotations

import os
import zlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO

_BLOCK = 1 << 20
_LEVEL = 1
"""Level 1: an archive is read once or twice, and making it must not take longer than sending it."""


class GzipWriter:
    """Takes bytes, writes a gzip file of several members. `close` or `abandon` ends it."""

    def __init__(self, out: BinaryIO) -> None:
        workers = max(1, min(8, os.cpu_count() or 1))
        self._out = out
        self._pool = ThreadPoolExecutor(workers)
        self._waiting: deque[Future[bytes]] = deque()
        self._most = 2 * workers
        self._held: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        """Takes some bytes; blocks while the threads are behind."""
        self._held.append(data)
        self._size += len(data)
        if self._size >= _BLOCK:
            self._send()

    def close(self) -> None:
        """Writes what is left."""
        if self._size:
            self._send()
        while self._waiting:
            self._out.write(self._waiting.popleft().result())
        self._pool.shutdown()

    def abandon(self) -> None:
        """Ends the threads; what they hold is lost."""
        self._pool.shutdown(cancel_futures=True)

    def _send(self) -> None:
        block, self._held, self._size = b"".join(self._held), [], 0
        if len(self._waiting) >= self._most:
            self._out.write(self._waiting.popleft().result())
        self._waiting.append(self._pool.submit(_member, block))


def _member(block: bytes) -> bytes:
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, 31)
    return compressor.compress(block) + compressor.flush()
