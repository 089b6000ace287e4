"""The watch for commands that hang: it ends the job once neither its log nor its metrics have grown for long.

Every process of the command says first where it is (`stacks.py`). Task 0 alone looks at the files; what it decides, all
tasks read.
"""

import os
import time

from nemo_runspec.jobside import processes, stacks
from nemo_runspec.jobside.signals import KILL, TERM
from nemo_runspec.jobside.text import say

MYPY = False
if MYPY:
    from typing import List, Optional, Tuple

    from nemo_runspec.jobside.barriers import Barriers
    from nemo_runspec.jobside.job import JobTask

_TOGETHER = 30.0
"""Seconds that a task waits for the others to come as far, so that all stacks are of one moment."""
_GRACE = 30.0
TRIES = 3
"""How often a job is put back because of a stall."""


class Stall:
    """Watches one command.

    Args:
        job: whose `stall` has `seconds`, and `action`: what becomes of the job, `stop` or `requeue`.
    """

    def __init__(self, job: "JobTask", barriers: "Barriers", child: processes.Child) -> None:
        self._job = job
        self._gates = barriers
        self._child = child
        self._limit = float(job.stall["seconds"])
        self._tick = min(10.0, max(1.0, self._limit // 10))
        self._idle = 0.0
        self._seen: "List[Tuple[str, int]]" = []
        self._looked = time.monotonic()
        self._kill_at: "Optional[float]" = None
        self._processes: "List[int]" = []
        barriers.folder.note("watched.%d" % job.task)

    def pause(self) -> float:
        """Seconds until the next look."""
        if self._kill_at is not None:
            return self._kill_at - time.monotonic()
        return self._looked + self._tick - time.monotonic()

    def look(self) -> None:
        """Looks, where it is time to."""
        now = time.monotonic()
        if self._kill_at is not None:
            if now >= self._kill_at:
                self._kill()
            return
        if now < self._looked + self._tick:
            return
        # Time that the whole job was suspended for does not count, so neither does a pause much longer than a tick.
        passed = now - self._looked
        self._looked = now
        if self._job.task == 0:
            self._judge(self._tick if passed > 3 * self._tick else passed)
        self._gates.folder.names()
        if self._gates.folder.has("stalled"):
            self._end()

    def _judge(self, passed: float) -> None:
        sizes = self._sizes()
        self._idle += passed
        if sizes != self._seen or not sizes:
            self._seen, self._idle = sizes, 0.0
        elif self._idle >= self._limit:
            self._decide()

    def _sizes(self) -> "List[Tuple[str, int]]":
        """The sizes of what must grow; none where there is no such file: then nothing can be said of the job."""
        import glob

        found = []
        logs = glob.glob("%s/%s" % (glob.escape(self._job.root), self._job.log)) if self._job.log else []
        for file in [*sorted(logs), self._job.metrics]:
            try:
                found.append((file, os.stat(file).st_size))
            except OSError:
                continue
        return found

    def _decide(self) -> None:
        """For all tasks: what becomes of the job, and why."""
        reason = "no progress for %d s (stall_timeout)" % self._limit
        action = str(self._job.stall.get("action", "stop"))
        if action == "requeue" and self._times() > TRIES:
            action, reason = "stop", "%s, after %d other tries" % (reason, TRIES)
        try:
            self._gates.folder.write("stalled", {"action": action, "reason": reason})
        except OSError:
            say("%s, and the job's directory cannot be written" % reason)
            self._child.send(TERM)

    def _times(self) -> int:
        """How often the job has stalled, this time included."""
        file = self._job.status + "/stalls"
        try:
            with open(os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "a+") as stream:
                stream.write("%s\n" % self._job.attempt)
                stream.seek(0)
                return sum(1 for _ in stream)
        except OSError:
            return TRIES + 1  # without a count it would never end

    def _end(self) -> None:
        """The stacks on every node at once, then the end."""
        self._together("ready")
        self._processes = processes.tree(self._child.pid)
        reason = self._gates.folder.read("stalled").get("reason", "")
        say("node %d: %s: it is ended; its processes' stacks:" % (self._job.node, reason))
        stacks.show(self._processes, self._job.tag)
        self._together("stacked")
        self._child.send(TERM)
        self._kill_at = time.monotonic() + _GRACE

    def _kill(self) -> None:
        self._kill_at = float("inf")
        self._child.send(KILL)
        for pid in self._processes:
            processes.send(pid, KILL)

    def _together(self, name: str) -> None:
        """Waits until every task that has a watch has come as far."""
        folder, until = self._gates.folder, time.monotonic() + _TOGETHER
        folder.note("%s.%d" % (name, self._job.task))
        watched = [word[len("watched.") :] for word in folder.names() if word.startswith("watched.")]
        while time.monotonic() < until:
            there = set(folder.names())
            if all("%s.%s" % (name, task) in there for task in watched):
                return
            time.sleep(0.5)
