"""A container's output as the engine sends it: attached before the start, and taken out of its frames."""

from __future__ import annotations

import os
import struct
from typing import Any

_HEADER = struct.Struct(">BxxxL")
"""Stream (1 output, 2 errors), then the number of bytes that follow: Docker Engine API, `ContainerAttach`."""

_PIECE = 1 << 18


class Frames:
    """Takes frames apart that arrive in pieces of any size. `raw`: the container has a terminal, so there are none."""

    def __init__(self, *, raw: bool = False) -> None:
        self._raw = raw
        self._head = b""
        self._left = 0

    def feed(self, data: bytes) -> bytes:
        """The output in these bytes, without the frames' heads."""
        if self._raw:
            return data
        found = []
        view = memoryview(data)
        while view:
            if not self._left:
                view = self._read_head(view)
                continue
            found.append(bytes(view[: self._left]))
            view, self._left = view[self._left :], self._left - len(found[-1])
        return b"".join(found)

    def _read_head(self, view: memoryview) -> memoryview:
        missing = _HEADER.size - len(self._head)
        self._head += bytes(view[:missing])
        if len(self._head) == _HEADER.size:
            self._left = _HEADER.unpack(self._head)[1]
            self._head = b""
        return view[missing:]


class Output:
    """The attached output of a container, for a selector.

    Args:
        client: docker-py's `APIClient`.
        container: the id.
        terminal: whether it has one.
    """

    def __init__(self, client: Any, container: str, *, terminal: bool = False) -> None:
        # Nothing is lost: the container has not been started, so the engine has sent nothing beyond its answer's head.
        self._socket = client.attach_socket(container, params={"stdout": 1, "stderr": 1, "stream": 1})
        self._frames = Frames(raw=terminal)
        self.ended = False
        os.set_blocking(self._socket.fileno(), False)

    def fileno(self) -> int:
        """The connection to the engine."""
        descriptor: int = self._socket.fileno()
        return descriptor

    def read(self) -> bytes | None:
        """Output that is there; empty at its end, None where there is none at the moment."""
        try:
            data = os.read(self.fileno(), _PIECE)
        except BlockingIOError:
            return None
        except OSError:  # the engine is gone
            data = b""
        self.ended = not data
        return (self._frames.feed(data) or None) if data else b""

    def close(self) -> None:
        """Gives the connection back."""
        self._socket.close()
