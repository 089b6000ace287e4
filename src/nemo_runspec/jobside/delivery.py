"""Delivers a signal to a command: at once, but for one that a command which still starts would lose, or be ended by.

While the shell of the command's line has started no program of it, a stop would be lost: that shell outlives it. USR1
and USR2 mean what the user's program takes them for, and end a program that has no handler. One that comes while the
program still starts (imports may take minutes) is held until a process of it catches, blocks or ignores it.
"""

import time

from nemo_runspec.jobside import processes
from nemo_runspec.jobside.signals import USR1, USR2

MYPY = False
if MYPY:
    from typing import List, Tuple

_YOUNG = 300.0
"""Seconds for which a command may still be starting."""
_HELD = 60.0
"""Seconds that a signal is held at most: then it is sent whatever it does."""

_BEGINS = 5.0
"""Seconds that a stop is held at most."""
_LINE = 1.0
"""Seconds in which a shell script that a line starts may set its own traps."""
_EXEC = 0.002
"""Seconds in which a program takes the place of another in a process: its words are new, its handlers still old."""

TICK = 0.1
_KEPT = (USR1, USR2)


class Delivery:
    """Delivers signals to the process group of a command that starts now."""

    def __init__(self, child: processes.Child) -> None:
        self._child = child
        self._begun = time.monotonic()
        self._held: "List[Tuple[int, float]]" = []

    @property
    def waits(self) -> bool:
        """True if a signal is held: then `go_on` every `TICK` seconds."""
        return bool(self._held)

    def tell(self, number: int) -> None:
        """Sends a signal, now or as soon as it does no harm."""
        now = time.monotonic()
        if now < self._begun + _YOUNG and not self._is_ready(number):
            self._held.append((number, now + (_HELD if number in _KEPT else _BEGINS)))
        else:
            self._child.send(number)

    def go_on(self) -> None:
        """Sends what was held and can be sent now."""
        now, held = time.monotonic(), self._held
        self._held = []
        for number, until in held:
            if now >= until or self._is_ready(number):
                self._child.send(number)
            else:
                self._held.append((number, until))

    def _is_ready(self, number: int) -> bool:
        """True if a program of the command is there and, where the signal is kept for it, does something about it."""
        if number not in _KEPT:
            return bool(self._programs())
        programs = self._programs()
        if self._child.pid not in programs and programs and not any(map(_is_python, programs)):
            # A line of the user's own that runs no Python: its shell may have a trap.
            return time.monotonic() > self._begun + _LINE or any(processes.heeds(pid, number) for pid in programs)
        if not any(processes.heeds(pid, number) for pid in programs):
            return False
        time.sleep(_EXEC)
        return any(processes.heeds(pid, number) for pid in self._programs())

    def _programs(self) -> "List[int]":
        """The command's processes, without those that are still the job script."""
        leader = self._child.pid
        if processes.words_of(leader) not in (self._child.words, []):
            return [leader]
        return [pid for pid in processes.tree(leader) if processes.words_of(pid) not in (self._child.words, [])]


def _is_python(pid: int) -> bool:
    words = processes.words_of(pid)
    return bool(words) and "python" in words[0].rpartition("/")[2]
