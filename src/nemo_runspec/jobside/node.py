"""One node of a job, or one task of several on a node: from the first line to its record.

It meets the others, runs its own lines in a shell, starts the command, passes signals on, and watches. What comes after
the command is in `finish.py`.
"""

import os
import time

from nemo_runspec.jobside import artifacts, processes, secrets, signals
from nemo_runspec.jobside.barriers import PATIENCE, USUAL_PATIENCE, Barriers, Failure
from nemo_runspec.jobside.environment import meeting, variables
from nemo_runspec.jobside.exit_status import Ended, as_on_node_0
from nemo_runspec.jobside.memory import OomKills
from nemo_runspec.jobside.open_files import OpenFiles
from nemo_runspec.jobside.rank import RankRun, hidden_values
from nemo_runspec.jobside.ranks import Ranks
from nemo_runspec.jobside.records import Folder, remove
from nemo_runspec.jobside.shell import Shell
from nemo_runspec.jobside.text import say

MYPY = False
if MYPY:
    from typing import Dict, List, Optional

    from nemo_runspec.jobside.job import JobTask
    from nemo_runspec.jobside.watch import Watch

_IDLE = 60.0
_LOOK = 2.0
"""Seconds between two looks whether another node has failed, while this one is at its startup commands."""
_GRACE = 30.0
"""Seconds that the shell of the startup commands has to end."""


class NodeRun:
    """This task of a job.

    Args:
        job: the job as this task sees it.
        script: the path of its job script.
    """

    def __init__(self, job: "JobTask", script: str) -> None:
        self.job = job
        self.script = script
        self.status = Folder(job.status)
        self.barriers = Barriers(job.barriers, job.task, job.tasks, job.seconds(PATIENCE, USUAL_PATIENCE))
        self.ranks = Ranks(self.status, self.barriers.folder, job.first_rank, job.ranks)
        self.room = "spare-%d" % job.task
        self.phase = "start"
        self.received = ""
        self.started = time.time()
        self.oom_kills = OomKills()
        self.open_files = OpenFiles()
        self.begun = 0.0
        self.keys: "Dict[str, str]" = {}
        self._early: "List[int]" = []
        self._shell: "Optional[Shell]" = None
        self._rank: "Optional[RankRun]" = None

    def begin(self) -> None:
        """Starts this node's records. Raises `Failure`."""
        try:
            self.status.make()
            self.barriers.folder.make()
        except OSError as error:
            raise Failure("the job's directory cannot be written: %s" % (error.strerror or error)) from None
        self.status.hand_over(self.barriers.folder.path)
        remove(self.status.file(self.job.marker))
        self.ranks.clear()
        if self.job.has("ends_all"):
            self.barriers.say("here")
        self.begun = self._mark_begin()
        self.status.keep_room(self.room)
        if self.job.tasks > 1:
            self.barriers.folder.keep_room(self.barriers.room)
        if self.job.task == 0 and self.job.restarts > 0:
            say("attempt " + _of_most(self.job.restarts + 1, os.environ.get("NEMOTRON_ATTEMPTS", "")))
        if self.job.task == 0 and self.job.nodes > 1 and self.open_files.words:
            say("node 0: " + self.open_files.words)
        for name in self.job.early:
            self._hear_early(signals.Signal(signals.number_of(name), 0))

    def _mark_begin(self) -> float:
        """When it has begun, by the clock of the file system."""
        name = "began.%d" % self.job.task
        self.status.note(name)
        try:
            return os.stat(self.status.file(name)).st_ctime
        except OSError:
            return self.started
        finally:
            remove(self.status.file(name))

    def run(self) -> Ended:
        """Runs this node's part of the job to the end of its command. Raises `Failure`."""
        job = self.job
        given = secrets.read(job.secrets) if job.has("secrets_file") else {}
        self.keys = artifacts.keys_among(job.root) if job.has("secrets_file") else {}
        if job.task == 0:
            why = artifacts.fetch(job.root, self.keys, self._heed) if job.inputs else ""
            if why:
                raise Failure("inputs: " + why, 1, "inputs")
            artifacts.find_inputs(self.status, job.inputs, job.root + "/train.yaml")
            if job.checks:
                from nemo_runspec.jobside.verify import check_inputs

                check_inputs(self)
        met = meeting(job, self.barriers, self.pause)
        if job.task == 0 and job.has("secrets_file") and not job.has("requeues") and not secrets.forget(job.secrets):
            raise Failure("the file of secrets cannot be removed: " + job.secrets)
        environment = variables(job, self.status, {**given, **met})
        rank = None
        if job.launch != "torchrun":
            first, hidden = job.first_rank, hidden_values(job.hidden, environment)
            rank = self._rank = RankRun(self.status, first, job.tag(first), hidden)
        shell = self._set_up(environment, rank)
        self.oom_kills.follow(shell.child.pid)  # startup commands may have gone into another control group
        self.phase = "command"
        if rank is not None:
            rank.listen()
        shell.answer()
        ended = self._command(shell)
        if rank is not None:
            rank.conclude(shell.child)
        return ended

    def _set_up(self, environment: "Dict[str, str]", rank: "Optional[RankRun]") -> Shell:
        """The shell, once all nodes have run their startup commands."""
        try:
            shell = Shell(self.script, environment, self.job.source, rank.pipe if rank else None)
        except OSError as error:
            raise Failure("bash cannot be started: %s" % error.strerror) from None
        self._shell = shell
        if self.job.local == 0:  # where `jobs ssh` finds it
            self.status.note(
                "shell-%d" % self.job.node, "%d %s\n" % (shell.child.pid, processes.started(shell.child.pid))
            )
        self.phase = "setup"
        while True:
            line = shell.heard()
            if line is not None:
                self._open_gate(shell, line)
                if self._is_ready(line):
                    break
            elif shell.child.has_ended():
                for line in shell.last_words():
                    self._is_ready(line)
                raise _ended_early(shell.child, self.phase, self.job.node)
            else:
                self._heed(_LOOK if self.job.tasks > 1 else _IDLE)
        self.barriers.reach("setup", self.pause)
        return shell

    def _heed(self, seconds: float = 0.0) -> None:
        """Waits, and heeds the failure of another node too. Raises `Failure`."""
        self.pause(seconds, once=True)
        if self.job.tasks > 1:
            self.barriers.heed_failures()

    def _is_ready(self, line: str) -> bool:
        """True if the shell's setup is over; notes where it is."""
        if line.startswith("at "):
            self.phase = line[len("at ") :]
        return line == "ready"

    def _command(self, shell: Shell) -> Ended:
        """Watches over the command until it has ended."""
        from nemo_runspec.jobside.watch import Watch

        watch = Watch(self.job, self.barriers, self.ranks, shell)
        for number in self._early:
            watch.tell(number)
        while not shell.child.has_ended():
            self._answer_gates(shell)
            found = signals.wait(watch.pause())
            if found is not None:
                self._note(found)
                # Where the platform signals every process of a task, the command has had it already.
                if not self.job.has("signals_all"):
                    watch.tell(found.number)
            watch.look()
        return self._conclude(shell, watch)

    def _conclude(self, shell: Shell, watch: "Watch") -> Ended:
        """What the command's end means."""
        child = shell.child
        if self.job.launch == "torchrun":
            self.ranks.end_left()
        if self.job.launch == "ray":
            return self._ray_ended(child)
        if self.job.has("head_only"):
            return watch.head_ended(child)
        return Ended(child.exit_code, child.signal, ran=True)

    def _ray_ended(self, child: processes.Child) -> Ended:
        """The end of the keeper of this node's Ray, which is the command's unless it says otherwise."""
        from nemo_runspec.jobside.ray import DRIVER, END

        why = self.barriers.folder.read("%s.%d" % (END, self.job.task))
        if not why and self.job.node > 0 and child.signal is None and self.barriers.folder.has(DRIVER):
            return as_on_node_0(child.exit_code)
        if not why:
            return Ended(child.exit_code, child.signal, ran=True)
        code = int(why.get("exit_code", 1))
        return Ended(
            code, None, None, str(why.get("reason", "")), str(why.get("code", "")), why.get("blames"), ran=True
        )

    def _answer_gates(self, shell: Shell) -> None:
        line = shell.heard()
        if line is not None:
            self._open_gate(shell, line)

    def _open_gate(self, shell: Shell, line: str) -> None:
        """Lets the shell go on that waits for the other nodes, once they have come as far."""
        if line.startswith("gate "):
            self.barriers.reach(line[len("gate ") :], self.pause)
            shell.answer()

    def pause(self, seconds: float, once: bool = False) -> None:
        """Waits, before there is a command; `once`: returns early where a child has said something.

        Raises:
            Failure: the job was told to stop.
        """
        until = time.monotonic() + seconds
        while True:
            left = until - time.monotonic()
            found = signals.wait(left)
            if found is not None:
                self._hear_early(found)
            elif once or left <= 0:
                return

    def _hear_early(self, found: signals.Signal) -> None:
        """One that asks for the end ends the job; any other is kept for the command."""
        if not found.stops:
            self._early.append(found.number)
            return
        self._note(found)
        raise Failure("the job was told to stop (SIG%s)" % found.name, signals.exit_code(found.number))

    def given(self) -> "Dict[str, int]":
        """What its ranks have given to the log, see `Ranks.given`: that of its own rank needs no room on a disk."""
        return self.ranks.given() if self._rank is None else self._rank.given()

    def give_room_back(self) -> None:
        """What was kept for the last records."""
        remove(self.status.file(self.room))
        remove(self.barriers.folder.file(self.barriers.room))

    def _note(self, found: signals.Signal) -> None:
        """For the record: the first stop, else the first signal."""
        if not self.received or (found.stops and not self.is_stopped):
            self.received = found.name

    @property
    def is_stopped(self) -> bool:
        """True if it was told to stop."""
        return bool(self.received) and signals.number_of(self.received) in signals.STOPPING

    def end_shell(self) -> None:
        """Ends a shell that has not become the command, or whose command is not wanted any more."""
        shell = self._shell
        if shell is None or shell.child.has_ended():
            return
        for number, seconds in ((signals.TERM, _GRACE), (signals.KILL, _GRACE)):
            shell.child.send(number)
            until = time.monotonic() + seconds
            while not shell.child.has_ended() and time.monotonic() < until:
                signals.wait(until - time.monotonic())
        processes.end_tree(shell.child.pid)


def _ended_early(child: processes.Child, phase: str, node: int) -> Failure:
    """The failure of startup commands that failed, or ended the script."""
    if child.exit_code:
        return Failure("node %d failed in its %s" % (node, phase), child.exit_code)
    part, _, what = phase.partition(": ")
    ended = "setup ended the script before the command" if part == "setup" else "the script ended before its command"
    return Failure("node %d: %s%s" % (node, ended, " (%s)" % what if what else ""))


def _of_most(number: int, most: str) -> str:
    """The platform may start a job more often than it was asked to."""
    return "%d of %s" % (number, most) if most.isdigit() and number <= int(most) else str(number)
