"""Which Ray and which Python somebody runs: all of a cluster, and its command, must have the same ones."""

import _thread
import os

from nemo_runspec.jobside import processes, values

MYPY = False
if MYPY:
    from typing import Any, Dict, List, Mapping, Optional

_SAID = 3
_WITH_TOKENS = (2, 52)
_LEVEL = "RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL"
"""A variable of Ray's: `minor` where Pythons may differ in their last number. By default they may not."""


def in_words(said: "Mapping[str, Any]") -> str:
    """As a person reads it."""
    return "Ray %s with Python %s" % (said.get("ray", ""), said.get("python", ""))


def are_same(one: "Mapping[str, Any]", other: "Mapping[str, Any]") -> bool:
    """True if one may connect to the other."""
    parts = 2 if os.environ.get(_LEVEL) == "minor" else 3
    return _key(one, parts) == _key(other, parts)


def has_tokens(ray: str) -> bool:
    """True if a Ray of this version knows token authentication."""
    numbers = [int(part) for part in ray.split(".")[:2] if part.isdigit()]
    return tuple(numbers) >= _WITH_TOKENS


def _key(said: "Mapping[str, Any]", parts: int) -> "List[str]":
    return [str(said.get("ray", "")), *str(said.get("python", "")).split(".")[:parts]]


class RayQuery:
    """A Python that is asked for its Ray, and says so soon.

    Args:
        python: its path.
        program: the job's side.
        environment: of what that Python will run.
    """

    def __init__(self, python: str, program: str, environment: "Mapping[str, str]") -> None:
        self.python = python
        self.said: "Dict[str, Any]" = {}
        self._child: "Optional[processes.Child]" = None
        self._silent = False
        mine, out = os.pipe()
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            fds = {0: nothing, 1: nothing, 2: nothing, _SAID: out}
            self._child = processes.start([python, program, "ray-node", "-", "{}"], dict(environment), fds)
        except OSError:
            pass  # so does the command fail, and says it better
        finally:
            os.close(out)
            os.close(nothing)
        _thread.start_new_thread(self._listen, (mine,))

    def has_ended(self) -> bool:
        """True if all is said."""
        return self._silent and (self._child is None or self._child.has_ended())

    def end(self) -> None:
        """Ends one that says nothing."""
        if self._child is not None and not self._child.has_ended():
            processes.end_tree(self._child.pid)

    def _listen(self, source: int) -> None:
        held = b""
        for chunk in iter(lambda: os.read(source, 4096), b""):
            held += chunk
        os.close(source)
        for line in held.splitlines():
            self.said.update(values.read(line.decode("ascii")))
        self._silent = True
        processes.wake()
