"""Words between a batch script's supervisor and the process that stands where its srun stands: JSON, one a line."""

import os
import socket
import threading
from collections import deque

from nemo_runspec.jobside import processes, values

MYPY = False
if MYPY:
    from typing import Any, Deque, Dict, Optional

    Message = Dict[str, Any]

NUMBER = 100
"""The number of the step's end, which goes through the user's shell: low ones are the user's own."""


class ControlSocket:
    """The supervisor's end.

    What is heard wakes `signals.wait`.
    """

    def __init__(self) -> None:
        self._heard: "Deque[Message]" = deque()
        self._socket, self.theirs = socket.socketpair()

    def start(self) -> None:
        """Starts to listen. The other end is somebody else's by then."""
        self.theirs.close()
        threading.Thread(target=self._listen, daemon=True).start()

    def heard(self) -> "Optional[Message]":
        """The next message, None for none yet."""
        return self._heard.popleft() if self._heard else None

    def answer(self, message: "Message") -> None:
        """Answers a message."""
        _send(self._socket, message)

    def _listen(self) -> None:
        with self._socket.makefile("rb") as lines:
            for line in lines:
                self._heard.append(values.read(line.decode()))
                processes.wake()


class Line:
    """The step's end."""

    def __init__(self) -> None:
        self._socket = socket.socket(fileno=NUMBER)
        os.set_inheritable(NUMBER, False)
        self._lines = self._socket.makefile("rb")

    def ask(self, **message: "Any") -> "Message":
        """Sends a message; what is answered, empty where the supervisor has gone."""
        _send(self._socket, message)
        line = self._lines.readline()
        found: "Message" = values.read(line.decode()) if line else {}
        return found


def _send(target: socket.socket, message: "Message") -> None:
    try:
        target.sendall(values.write(message).encode() + b"\n")
    except OSError:
        return  # nobody is there any more
