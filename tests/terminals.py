"""A command in a terminal of its own, as a person has it."""

from __future__ import annotations

import codecs
import os
import pty
import select
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from support import Project
from waiting import PAUSE, until


def in_terminal(
    project: Project, *words: str, keys: str = "", look: Callable[[str], object] | None = None, **environment: str
) -> tuple[str, int]:
    """`nemotron WORDS` in a terminal: all that was on it, and the exit code.

    Args:
        keys: what is typed there from the beginning. `look`: called with what has been on it so far.
    """
    child, screen = pty.fork()
    if child == 0:
        os.chdir(project.folder)
        os.execve(
            sys.executable,
            [sys.executable, "-m", "nemotron", *words],
            project.environment(**{"COLUMNS": "80", **environment}),
        )
    if keys:
        os.write(screen, keys.encode())
    said = b""
    while True:
        try:
            said += os.read(screen, 4096)
        except OSError:
            break
        if look is not None:
            look(said.decode("utf-8", "replace"))
    os.close(screen)
    return said.decode(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Terminal:
    """A program in a terminal of its own, at which somebody sits.

    Attributes:
        screen: the terminal as its window has it; `said`: all that has been on it.
    """

    def __init__(self, folder: Path, words: Sequence[str], environment: Mapping[str, str]) -> None:
        self.said = ""
        self._seen = 0
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")
        self._child, self.screen = pty.fork()
        if self._child == 0:
            os.chdir(folder)
            os.execvpe(words[0], list(words), dict(environment))

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self.screen)  # hangs up
        with suppress(ChildProcessError):
            until(lambda: os.waitpid(self._child, os.WNOHANG)[0], "its end")

    def types(self, keys: str) -> None:
        """Presses keys."""
        os.write(self.screen, keys.encode())

    def shows(self, text: str) -> str:
        """Waits until a text is there that was not seen before; what stands before it.

        Raises:
            AssertionError: it does not come.
        """
        try:
            until(lambda: self._has(text), repr(text))
        except AssertionError:
            raise AssertionError(f"{text!r} never came; the screen: {self.said!r}") from None
        end = self.said.index(text, self._seen)
        before, self._seen = self.said[self._seen : end], end + len(text)
        return before

    def ends(self) -> int:
        """Waits until the program has ended; its exit code."""
        until(lambda: self._is_waiting() and not self._read(), "its end")
        return os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])

    def _has(self, text: str) -> bool:
        while text not in self.said[self._seen :]:
            if not self._is_waiting():
                return False
            assert self._read()
        return True

    def _is_waiting(self) -> bool:
        return bool(select.select([self.screen], [], [], PAUSE)[0])

    def _read(self) -> bool:
        """Takes what there is; whether it goes on."""
        try:
            piece = os.read(self.screen, 4096)
        except OSError:
            piece = b""
        self.said += self._bytes.decode(piece).replace("\r\n", "\n")
        return bool(piece)
