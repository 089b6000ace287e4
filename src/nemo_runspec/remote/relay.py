"""A port of this machine that leads to one of a job's node's loopback, over the input and output of a command there.

The other end is `jobside/relay.py`, which says how the two talk. One command carries any number of connections.
"""

from __future__ import annotations

import socket
import threading
from base64 import b64decode, b64encode
from contextlib import suppress

from nemo_runspec.errors import UserError
from nemo_runspec.jobside.relay import GREETING
from nemo_runspec.transport.duplex import CommandDuplex

_PIECE = 1 << 15


class Relay:
    """This end. Raises `UserError` where there is no other.

    Args:
        duplex: of the command that runs `jobside/relay.py` there; closed by `close`.

    Attributes:
        secret: what the other end has found in the file it was told, empty for nothing.
    """

    def __init__(self, duplex: CommandDuplex) -> None:
        self._duplex = duplex
        self._writing = threading.Lock()
        self._open: dict[int, socket.socket] = {}
        self._last = 0
        self.secret = self._greeted()

    def _greeted(self) -> bytes:
        head = f"{GREETING} ".encode()
        for line in iter(self._duplex.read_line, b""):
            if line.startswith(head):
                word = line[len(head) :].strip()
                return b"" if word == b"-" else b64decode(word)
        self._duplex.close()  # what came before is chatter of a shell's
        raise UserError(
            f"the job's node cannot be reached: {self._duplex.last_words() or 'the command there said nothing'}"
        )

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._open)

    def serve(self, listener: socket.socket) -> None:
        """Leads connections to `listener` there until the other end is gone. Comes back then."""
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        for line in iter(self._duplex.read_line, b""):
            words = line.split()
            if len(words) in (2, 3) and words[1].isdigit():
                self._heed(words[0], int(words[1]), words[2] if len(words) == 3 else b"")

    def close(self) -> None:
        """Ends the command, and all connections."""
        for end in list(self._open.values()):
            _shut(end)
        self._duplex.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                end, _ = listener.accept()
            except OSError:
                return
            self._last += 1
            self._open[self._last] = end
            threading.Thread(target=self._read, args=(self._last, end), daemon=True).start()

    def _read(self, number: int, end: socket.socket) -> None:
        with suppress(OSError, ValueError):
            self._say(b"open %d" % number)
            for piece in iter(lambda: end.recv(_PIECE), b""):
                self._say(b"data %d %s" % (number, b64encode(piece)))
        with suppress(OSError, ValueError):
            self._say(b"close %d" % number)

    def _heed(self, word: bytes, number: int, data: bytes) -> None:
        end = self._open.get(number)
        if end is None:
            return
        if word == b"data":
            with suppress(OSError):
                end.sendall(b64decode(data))
        elif word == b"close":
            del self._open[number]
            _shut(end)
            end.close()

    def _say(self, line: bytes) -> None:
        with self._writing:
            self._duplex.write(line + b"\n")


def listening(wanted: int) -> socket.socket:
    """A socket that listens on this machine's loopback: at the wanted port, or at another where that is taken."""
    for port in (wanted, 0):
        found = socket.socket()
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind(("127.0.0.1", port))
            found.listen(64)
        except OSError:
            found.close()
            if port == 0:
                raise
            continue
        return found
    raise AssertionError("a port of the system's choice is free")


def _shut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
