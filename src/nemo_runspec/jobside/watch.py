"""Watches a running command: its ranks, the other nodes, signals from outside, its progress."""

import time

from nemo_runspec.jobside import processes
from nemo_runspec.jobside.barriers import Barriers
from nemo_runspec.jobside.delivery import TICK, Delivery
from nemo_runspec.jobside.exit_status import Ended, as_on_node_0
from nemo_runspec.jobside.signals import KILL, TERM, number_of

MYPY = False
if MYPY:
    from typing import Callable, List, Optional, Tuple

    from nemo_runspec.jobside.job import JobTask
    from nemo_runspec.jobside.ranks import Ranks
    from nemo_runspec.jobside.shell import Shell
    from nemo_runspec.jobside.stall import Stall

_LOOK = 2.0
"""Seconds between two looks at files that other nodes write."""
_IDLE = 60.0
_WARNED = 5.0
"""Seconds that a command has for its last lines once another node has failed; collectives would wait for that one."""
_GRACE = 30.0
"""Seconds between TERM and KILL."""


class Watch:
    """Watches over one command."""

    def __init__(self, job: "JobTask", barriers: Barriers, ranks: "Ranks", shell: "Shell") -> None:
        self._job = job
        self._gates = barriers
        self._ranks = ranks
        self._shell = shell
        self._delivery = Delivery(shell.child)
        self._told = 0
        self._steps: "List[Tuple[float, Callable[[], None]]]" = []
        self._ending = False
        self._driver: "Optional[int]" = None
        self._stall = self._stall_watch()

    def tell(self, number: int) -> None:
        """Tells the command a signal."""
        if self._job.launch == "torchrun":
            self._ranks.tell(number, self._shell.child)
        else:
            self._delivery.tell(number)

    def pause(self) -> float:
        """Seconds until the next look is due, at most."""
        due = [at - _now() for at, _ in self._steps]
        if self._ranks.waits or self._delivery.waits:
            due.append(TICK)
        if self._stall is not None:
            due.append(self._stall.pause())
        due.append(_LOOK if self._looks_at_others() else _IDLE)
        return max(0.0, min(due))

    def look(self) -> None:
        """Looks at all that is due."""
        for step in [step for step in self._steps if step[0] <= _now()]:
            self._steps.remove(step)
            step[1]()
        self._ranks.go_on()
        self._delivery.go_on()
        if self._looks_at_others():
            self._look_at_others()
        if self._stall is not None:
            self._stall.look()

    def head_ended(self, child: processes.Child) -> Ended:
        """What the end of a node's part means where node 0 alone has the command: all end as that does.

        One that has ended without it was told to stop, or killed.
        """
        if self._job.task == 0:
            try:
                self._gates.folder.write("driver", {"exit_code": child.exit_code})
            except OSError:
                pass  # the others learn it by the job's end
        if self._job.node > 0 and self._driver is not None:
            return as_on_node_0(self._driver)
        return Ended(child.exit_code, child.signal, ran=True)

    def _looks_at_others(self) -> bool:
        return self._job.tasks > 1 or self._job.has("requeues")

    def _look_at_others(self) -> None:
        for name in self._gates.told()[self._told :]:
            self._told += 1
            self.tell(number_of(name))
        if not self._ending and self._gates.first_failure() is not None:
            self._end_in(_WARNED)
        if self._job.has("head_only") and self._job.node > 0 and self._driver is None:
            driver = self._gates.folder.read("driver")
            if driver:
                self._driver = int(driver.get("exit_code", 1))
                self._end_in(0.0)

    def _end_in(self, seconds: float) -> None:
        """TERM after so many seconds, KILL some time after it."""
        self._ending = True
        child = self._shell.child
        self._steps.append((_now() + seconds, lambda: child.send(TERM)))
        self._steps.append((_now() + seconds + _GRACE, lambda: child.send(KILL)))

    def _stall_watch(self) -> "Optional[Stall]":
        if not self._job.stall:
            return None
        from nemo_runspec.jobside.stall import Stall

        return Stall(self._job, self._gates, self._shell.child)


def _now() -> float:
    return time.monotonic()
