"""The shell in which a node's own lines run: variables, startup commands, then the command itself.

It is `job.sh` once more, which goes on behind `start.sh` there (`--shell`). It tells the supervisor over a socket how
far it is, and waits there for the other nodes:

    at PHASE      it begins a part of its lines
    ready         its setup is over: it waits for `go`, and becomes the command
    gate NAME     it waits until all tasks have come as far
"""

import _socket
import _thread
import os

from nemo_runspec.jobside import processes
from nemo_runspec.jobside.clock import within

MYPY = False
if MYPY:
    from typing import Dict, List, Optional

INPUT, OUTPUT, CONTROL = 7, 8, 9
"""Numbers in the shell of what the command reads, of the rank's output, and of the socket.

bash reads files above 9 only by `exec {name}`.
"""

_LAST_WORDS = 1.0
"""Seconds for what it has said last, where a process that it has left behind holds the socket open."""


class Shell:
    """The shell, which starts at once.

    Args:
        script: the job script.
        environment: all variables that it gets.
        source: what the command reads; None for nothing.
        output: the end of a pipe for what the command writes, which is closed here; None where ranks have theirs.

    Raises:
        OSError: there is no bash.
    """

    def __init__(
        self, script: str, environment: "Dict[str, str]", source: "Optional[int]", output: "Optional[int]"
    ) -> None:
        self._lines: "List[str]" = []
        self._silent = _thread.allocate_lock()
        self._silent.acquire()
        mine, theirs = _socket.socketpair()
        self._control = mine.detach()
        nothing = os.open(os.devnull, os.O_RDONLY)
        fds = {CONTROL: theirs.fileno(), INPUT: nothing if source is None else source}
        if output is not None:
            fds[OUTPUT] = output
        try:
            self.child = processes.start(["bash", script, "--shell"], environment, fds)
        finally:
            theirs.close()
            os.close(nothing)
            if output is not None:
                os.close(output)
        _thread.start_new_thread(self._listen, ())

    def heard(self) -> "Optional[str]":
        """The next line that it has said, None for none yet."""
        return self._lines.pop(0) if self._lines else None

    def last_words(self) -> "List[str]":
        """All that it has said, once it has ended."""
        if within(_LAST_WORDS, lambda: self._silent.acquire(False)):
            self._silent.release()
        return list(self._lines)

    def answer(self) -> None:
        """Lets it go on."""
        try:
            os.write(self._control, b"go\n")
        except OSError:
            return  # it has ended

    def _listen(self) -> None:
        held = b""
        while True:
            try:
                chunk = os.read(self._control, 4096)
            except OSError:
                chunk = b""  # it ended with an answer unread
            if not chunk:
                break
            *lines, held = (held + chunk).split(b"\n")
            self._lines += [line.decode("utf-8", "replace") for line in lines]
            processes.wake()
        self._silent.release()
        processes.wake()
