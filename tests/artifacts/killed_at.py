"""A change of a store by a process that is killed as it makes one of its system calls."""

from __future__ import annotations

_PROGRAM = """
import os, signal, sys
from nemo_runspec.artifacts import changes, versions
at, calls = int(sys.argv[2]), [0]
for name in {names!r}:
    def one(*words, _real=getattr(os, name), **named):
        calls[0] += 1
        if calls[0] == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return _real(*words, **named)
    setattr(os, name, one)
{change}
"""


def killed_at(names: tuple[str, ...], change: str) -> str:
    """A program, called with a path and the number of the call before which it is killed; 0 for none.

    Args:
        names: of functions of `os` whose calls count. `change`: what it does with `sys.argv[1]`.
    """
    return _PROGRAM.format(names=names, change=change)
