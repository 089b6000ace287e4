"""A command in a terminal of its own, as a person has it."""

from __future__ import annotations

import os
import pty
import sys
from collections.abc import Callable

from support import Project


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
