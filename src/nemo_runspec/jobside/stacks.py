"""Dumps the stacks of a job's processes: those that are the user's Python.

They are py-spy's where the job has it: it only looks. Else ABRT makes Python write the stacks of all its threads and
end, where it has PYTHONFAULTHANDLER (docs.python.org, faulthandler).
"""

import os
import resource
import time

from nemo_runspec.jobside import processes
from nemo_runspec.jobside.signals import ABRT, KILL

MYPY = False
if MYPY:
    from typing import Callable, List, Sequence

_SECONDS = 15.0
_LAST_WORDS = 3.0


def show(pids: "Sequence[int]", tag: "Callable[[int], str]") -> None:
    """Writes the stacks of these processes to the log, all taken at the same time.

    Args:
        tag: what comes before the lines of a rank.
    """
    asked = {pid: _ask(pid) for pid in pids if _is_users_python(pid)}
    until = time.monotonic() + _SECONDS
    left = []
    for pid, process in asked.items():
        said = process.answer(until) if process else b""
        if said:
            rank = processes.environment_of(pid).get("RANK", "0")
            before = tag(int(rank) if rank.isdigit() else 0).encode()
            os.write(2, b"".join(before + line + b"\n" for line in said.splitlines()))
        else:
            left.append(pid)
    _abort(left)


class _StackDump:
    """A run of py-spy on one process."""

    def __init__(self, child: processes.Child, answer: int) -> None:
        self._child = child
        self._answer = answer

    def answer(self, until: float) -> bytes:
        """What it says by then; nothing where it fails."""
        found = processes.read_all(self._answer, until)
        os.close(self._answer)
        while not self._child.has_ended() and time.monotonic() < until:
            time.sleep(0.01)
        if not self._child.has_ended():
            self._child.send(KILL)
            return b""
        return found or b"" if self._child.exit_code == 0 else b""


def _ask(pid: int) -> "_StackDump | None":
    environment = processes.environment_of(pid)
    answer, theirs = os.pipe()
    try:
        child = processes.start(["py-spy", "dump", "--pid", str(pid)], environment, {1: theirs, 2: theirs})
    except OSError:
        os.close(answer)
        return None
    finally:
        os.close(theirs)
    return _StackDump(child, answer)


def _abort(pids: "List[int]") -> None:
    """At once, as the first to end makes torchrun end the others; and without a file of all their memory, which may
    take longer than all else.
    """
    for pid in pids:
        try:
            resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
        except (OSError, ValueError):
            continue
    for pid in pids:
        processes.send(pid, ABRT)
    if pids:
        time.sleep(_LAST_WORDS)


def _is_users_python(pid: int) -> bool:
    """Not the launcher itself, nor a supervisor of ours."""
    try:
        program = os.readlink("/proc/%d/exe" % pid)
    except OSError:
        return False
    if "/python" not in program:
        return False
    words = processes.words_of(pid)
    return words[1:3] != ["-m", "torch.distributed.run"] and not (len(words) > 3 and words[1:3] == ["-I", "-S"])
