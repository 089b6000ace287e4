"""How a signal comes to a command: at once, but for one that would end a command which is not ready for it yet.

USR1 and USR2 mean what the user's program takes them for, and end a program that has no handler. One that comes while
the program still starts (imports may take minutes) is held until a process of it catches, blocks or ignores it.
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

TICK = 0.2
_KEPT = (USR1, USR2)


class Delivery:
    """Delivers signals to the process group of a command that starts now."""

    def __init__(self, child: processes.Child) -> None:
        self._child = child
        self._begun = time.monotonic()
        self._held: "List[Tuple[int, float]]" = []

    @property
    def waits(self) -> bool:
        """Whether a signal is held: then `go_on` every `TICK` seconds."""
        return bool(self._held)

    def tell(self, number: int) -> None:
        """Sends a signal, now or as soon as it does no harm."""
        now = time.monotonic()
        if number in _KEPT and now < self._begun + _YOUNG and not self._is_ready(number):
            self._held.append((number, now + _HELD))
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
        """Whether the command's own program does something about a signal; a shell only waits for it."""
        leader = self._child.pid
        if processes.program_of(leader) != "bash":
            return processes.heeds(leader, number)
        return any(processes.heeds(pid, number) for pid in processes.tree(leader) if pid != leader)
