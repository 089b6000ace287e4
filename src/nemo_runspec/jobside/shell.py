"""The shell in which a node's own lines run: variables, startup commands, then the command itself.

It is `job.sh` once more, which goes on behind `start.sh` there (`--shell`). It tells the supervisor over a socket how
far it is, and waits there for the other nodes:

    at PHASE      it begins a part of its lines
    ready         its setup is over: it waits for `go`, and becomes the command
    gate NAME     it waits until all tasks have come as far
"""

import os
import socket
import threading
from collections import deque

from nemo_runspec.jobside import processes

MYPY = False
if MYPY:
    from typing import Deque, Dict, List, Optional

OUTPUT, CONTROL = 8, 9
"""Numbers of the rank's output and of the socket in the shell; bash reads files above 9 only by `exec {name}`."""

_LAST_WORDS = 1.0


class Shell:
    """The shell, which starts at once.

    Args:
        script: the job script. `environment`: all variables that it gets.
        output: the end of a pipe for what the command writes, which is closed here; None where ranks have theirs.

    Raises:
        OSError: there is no bash.
    """

    def __init__(self, script: str, environment: "Dict[str, str]", output: "Optional[int]") -> None:
        self._lines: "Deque[str]" = deque()
        self._silent = threading.Event()
        self._control, theirs = socket.socketpair()
        fds = {CONTROL: theirs.fileno()}
        if output is not None:
            fds[OUTPUT] = output
        try:
            self.child = processes.start(["bash", script, "--shell"], environment, fds)
        finally:
            theirs.close()
            if output is not None:
                os.close(output)
        threading.Thread(target=self._listen, daemon=True).start()

    def heard(self) -> "Optional[str]":
        """The next line that it has said, None for none yet."""
        return self._lines.popleft() if self._lines else None

    def last_words(self) -> "List[str]":
        """All that it has said, once it has ended; a process that it has left behind may hold the socket."""
        self._silent.wait(_LAST_WORDS)
        return list(self._lines)

    def answer(self) -> None:
        """Lets it go on."""
        try:
            self._control.sendall(b"go\n")
        except OSError:
            return  # it has ended

    def _listen(self) -> None:
        with self._control.makefile("rb") as lines:
            for line in lines:
                self._lines.append(line.decode("utf-8", "replace").rstrip("\n"))
                processes.wake()
        self._silent.set()
