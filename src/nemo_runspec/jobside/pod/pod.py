"""This pod: its log, the signals that it gets, the programs that it runs one after the other."""

import os
import threading
import time

from nemo_runspec.jobside import processes, signals
from nemo_runspec.jobside.barriers import Barriers
from nemo_runspec.jobside.clock import within
from nemo_runspec.jobside.memory import OomKills
from nemo_runspec.jobside.pod.life import PodLife
from nemo_runspec.jobside.pod.log import Log
from nemo_runspec.jobside.pod.values import PodJob, seconds
from nemo_runspec.jobside.records import Folder, remove
from nemo_runspec.jobside.text import say

MYPY = False
if MYPY:
    from typing import Dict, List, Optional, Sequence

GROUP, SCRIPT, ALONE = "group", "script", "alone"
"""What a stop means to a program: TERM to its process group; the signal itself to this one process, which passes it on;
nothing, whether it comes meanwhile or has come before."""

_IDLE = 60.0
_LOOK = 2.0
"""Seconds between two looks whether another node has failed, while this one is not at its job script yet."""
_LAST_LINES = 5.0
"""Seconds for the last lines, where a process that was left behind holds the log open."""


class PodRun:
    """This pod of a job.

    Attributes:
        environment: the variables of all that runs here, and of what says for how long it waits.
        told: the signal that has asked for the job's end first, by name, '' for none.
        lives: how often this attempt was started here, 1 for the first time.
    """

    def __init__(self, job: PodJob, index: int) -> None:
        self.job = job
        self.index = index
        self.environment = dict(os.environ)
        self.phase = "start"
        self.told = ""
        self.oom = OomKills()
        self.log = Log(job.log(index))
        self.status = Folder(job.status)
        self.lives = 1
        self.barriers = Barriers(job.status, index, job.nodes, 0)
        self._life: "Optional[PodLife]" = None
        self._child: "Optional[processes.Child]" = None
        self._passes = ALONE
        self._early: "List[int]" = []
        self._last_word: "Optional[_Timer]" = None

    @property
    def python(self) -> str:
        """The Python that all programs here run by, as start.sh has found it."""
        return self.environment.get("NEMOTRON_PYTHON") or "python3"

    @property
    def lost(self) -> int:
        """Seconds without a sign of life after which a node is taken for lost."""
        return seconds(self.environment, "NEMOTRON_LOST_SECONDS", 300)

    @property
    def stopped(self) -> int:
        """The exit code of what was told to stop before it had started, by the signal that has told it."""
        return signals.exit_code(signals.number_of(self.told))

    @property
    def marker(self) -> str:
        """The name of the record in which this node's job script says how it ended."""
        return "node-%d" % self.index

    def begin(self) -> None:
        """Where this node stands, before anything can fail; then all that is written goes to its log too."""
        for path in (self.job.root + "/logs", self.job.status):
            _make(path)
        self._count_lives()
        remove(self.status.file(self.marker))
        if self.job.nodes > 1:
            self._life = PodLife(self.barriers.folder, self.index, self.lost // 30 + 1)
            self._life.begin()
        if not self.log.begin():
            say("the log cannot be kept in %s/logs: it is only what the platform has" % self.job.root)
        for name in self.job.early:
            self._take(signals.Signal(signals.number_of(name), 0))

    def run(self, words: "Sequence[str]", passes: str, fds: "Dict[int, int]" = {}) -> int:  # noqa: B006
        """Runs a program in a process group of its own; its exit code, whatever signals come meanwhile.

        Args:
            passes: `GROUP`, `SCRIPT` or `ALONE`; the first two do not start at all once the pod was told to stop. A
                `GROUP` gets TERM as well once another node has failed.
            fds: as for `processes.start`; they are closed here.

        Raises:
            OSError: it cannot be started.
        """
        self.heed()
        try:
            if self.told and passes != ALONE:
                return self.stopped
            # The script goes on in a supervisor, which takes the signals that have come until then.
            child = processes.start(words, self.environment, fds, blocked=signals.HEARD if passes == SCRIPT else ())
        finally:
            for number in set(fds.values()):
                os.close(number)
        self._child, self._passes = child, passes
        if passes == SCRIPT:
            for number in self._early:
                self._pass_on(number)
        heeds = passes == GROUP and self.job.nodes > 1
        while not child.has_ended():
            self._hear(_LOOK if heeds else _IDLE)
            if heeds and self.barriers.first_failure() is not None:
                child.send(signals.TERM)
                heeds = False
        self._child = None
        return child.exit_code

    def pause(self, length: float) -> None:
        """Waits so many seconds, and heeds signals meanwhile."""
        until = time.monotonic() + length
        while time.monotonic() < until:
            self._hear(until - time.monotonic())

    def heed(self) -> None:
        """Heeds the signals that have come by now."""
        while self._hear(0.0) or self._hear(0.0):  # the first may have been a timer's, which is before TERM
            pass

    def heed_failures(self) -> None:
        """Raises the `Failure` of another node that has failed. A stop that this one was told comes first."""
        if self.job.nodes > 1 and not self.told:
            self.barriers.heed_failures()

    def end(self, code: int, lines: "Sequence[str]") -> None:
        """Writes the last lines, and shows that this node has ended."""
        for line in lines:
            self.log.line(line)
        if self._life is not None:
            self._life.end(code)

    def end_log(self) -> None:
        """What comes from here on are the last lines."""
        self.log.end(_LAST_LINES)
        if self._last_word is not None:
            self._last_word.give_up(_LAST_LINES)

    def _hear(self, length: float) -> bool:
        """Waits for a signal or the end of a child, at most so many seconds; whether there was a signal."""
        found = signals.wait(length)
        processes.reap()
        if found is None:
            return False
        self._take(found)
        self._pass_on(found.number)
        return True

    def _take(self, found: signals.Signal) -> None:
        if found.stops:
            self._stop(found.name)
        elif self._child is None or self._passes != SCRIPT:
            self._early.append(found.number)  # what runs before the job script is not who it is meant for

    def _pass_on(self, number: int) -> None:
        child = self._child
        if child is None or child.has_ended():
            return
        if self._passes == SCRIPT:
            processes.send(child.pid, number)
        elif self._passes == GROUP and number in signals.STOPPING:
            child.send(signals.TERM)

    def _stop(self, name: str) -> None:
        """The platform kills what does not end in time, and then nothing is said any more: so it is said before."""
        self.told = self.told or name
        if self._last_word is None:
            length = seconds(self.environment, "NEMOTRON_STOP_SECONDS", 20)
            self._last_word = _Timer(length, self._say_last_word, (length,))
            self._last_word.daemon = True
            self._last_word.start()

    def _say_last_word(self, length: int) -> None:
        from nemo_runspec.jobside.pod.ending import end_line

        reason = "it was told to stop (SIG%s) and still ran %d s later" % (self.told, length)
        self.log.line(end_line(self, self.stopped, reason))

    def _count_lives(self) -> None:
        """A platform may run all pods of a job anew, such as after a preemption, and it is the same attempt.

        What the nodes told each other before, that they are here or have failed, must not be taken for news: each life
        has gates of its own.
        """
        file = self.status.file("lives-%s.%d" % (self.job.attempt, self.index))
        try:
            with open(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab") as lives:
                lives.write(b".")
            self.lives = os.stat(file).st_size
        except OSError:
            self.lives = 1
        life = self.job.attempt if self.lives <= 1 else "%s.%d" % (self.job.attempt, self.lives)
        self.environment["NEMOTRON_POD_LIFE"] = life
        self.barriers = Barriers("%s/gates-%s" % (self.job.status, life), self.index, self.job.nodes, 0)
        _make(self.barriers.folder.path)


class _Timer(threading.Timer):
    """One that nobody disturbs who sets the clock."""

    def run(self) -> None:
        if not within(self.interval, self.finished.is_set):
            self.function(*self.args, **self.kwargs)

    def give_up(self, patience: float) -> None:
        """Cancels it. What has begun is waited for, so many seconds at most."""
        self.cancel()
        within(patience, lambda: not self.is_alive())


def _make(path: str) -> None:
    try:
        Folder(path).make()
    except OSError:
        return  # what is to be written there says so
