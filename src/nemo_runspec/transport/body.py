"""Reads the body of an HTTP answer, as long as it has an end: what comes drop by drop would be waited for for ever."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

_PART = 1 << 16


class Endless(Exception):
    """The body took too long, or was too much; its connection is broken."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a whole body may take: `seconds` from its head on, and `size`, in bytes once it is unpacked."""

    seconds: float = 120.0
    size: int = 256 << 20


def body_of(answer: Any, limits: Limits) -> bytes:
    """The body of an answer of `requests` whose body is a stream.

    Raises:
        Endless: it is beyond the limits. Others as `requests` does.
    """
    body = bytearray()
    with answer, _broken_after(answer, limits.seconds):
        for part in answer.iter_content(_PART):
            body += part
            if len(body) > limits.size:
                raise Endless
    return bytes(body)


@contextmanager
def _broken_after(answer: Any, seconds: float) -> Iterator[None]:
    """Shuts the connection down after that time, which ends whatever read waits for it.

    Raises:
        Endless: it had to, whatever the read made of it.
    """
    connection = _connection_of(answer)
    if connection is None:
        yield
        return
    late = threading.Event()

    def shut() -> None:
        late.set()
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, shut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        connection.close()
        if late.is_set():
            raise Endless from None


def _connection_of(answer: Any) -> socket.socket | None:
    """The socket that an answer comes by, None where there is nothing more to come by it."""
    with suppress(OSError, AttributeError, ValueError):
        return socket.socket(fileno=os.dup(answer.raw.fileno()))
    return None
