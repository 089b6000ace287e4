"""Leads connections to a port of a node's loopback, for who reaches the node by a command's input and output alone.

`supervisor.py relay PORT FILE`, beside a running job. Lines of ASCII, so that no layer between may change them: first
`nemotron-relay SECRET`, the content of FILE in base64 or `-`; then `open N`, `data N BASE64` and `close N` for the
connection of a number. The other end is `remote/relay.py`. It ends with its input.
"""

import os
import socket
import sys
import threading
from base64 import b64decode, b64encode

from nemo_runspec.jobside import signals

MYPY = False
if MYPY:
    from typing import Dict

GREETING = "nemotron-relay"
_PIECE = 1 << 15
_SECONDS = 10


def relay(port: int, file: str) -> int:
    """Leads on until nobody is at the other end; the exit code."""
    signals.unblock_for_exec()
    ends = _Ends(port)
    ends.say("%s %s" % (GREETING, _secret(file)))
    for line in sys.stdin:
        words = line.split()
        if len(words) in (2, 3) and words[1].isdigit():
            ends.heed(words[0], int(words[1]), words[2] if len(words) == 3 else "")
    return 0


def _secret(file: str) -> str:
    try:
        with open(file, "rb") as source:
            return b64encode(source.read(4096)).decode("ascii") or "-"
    except OSError:
        return "-"


class _Ends:
    """The connections on this side, by their numbers."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writing = threading.Lock()
        self._open: "Dict[int, socket.socket]" = {}

    def say(self, line: str) -> None:
        """A line to the other end."""
        data = (line + "\n").encode("ascii")
        with self._writing:
            while data:
                data = data[os.write(1, data) :]

    def heed(self, word: str, number: int, data: str) -> None:
        """Does what a line says."""
        if word == "open":
            self._connect(number)
            return
        end = self._open.get(number)
        if end is None:
            return
        try:
            if word == "data":
                end.sendall(b64decode(data))
            elif word == "close":
                end.shutdown(socket.SHUT_WR)  # an answer may be on its way still
        except OSError:
            return  # who reads from it sees that, too

    def _connect(self, number: int) -> None:
        try:
            end = socket.create_connection(("127.0.0.1", self._port), _SECONDS)
        except OSError:
            self.say("close %d" % number)
            return
        end.settimeout(None)
        self._open[number] = end
        threading.Thread(target=self._read, args=(number, end), daemon=True).start()

    def _read(self, number: int, end: socket.socket) -> None:
        try:
            for piece in iter(lambda: end.recv(_PIECE), b""):
                self.say("data %d %s" % (number, b64encode(piece).decode("ascii")))
        except OSError:
            pass
        self._open.pop(number, None)
        end.close()
        self.say("close %d" % number)
