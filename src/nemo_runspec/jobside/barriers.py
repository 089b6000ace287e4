"""Barriers: how a job's tasks meet, and learn that one of them has failed, by files that all of them see."""

import time

from nemo_runspec.jobside.records import Folder

MYPY = False
if MYPY:
    from typing import Callable, Optional, Tuple

    from nemo_runspec.jobside.records import Record

_TICK = 0.5

PATIENCE, USUAL_PATIENCE = "NEMOTRON_BARRIER_SECONDS", 3600
"""The variable that says for how many seconds a barrier waits for the others, and how many where it is not set."""


class Failure(Exception):
    """The job cannot go on here.

    Args:
        reason: in words.
        exit_code: 1 to 255.
        code: of `REASONS` in script/markers.py, '' for none.
        blames: the node whose failure this one follows, None where it is this one's own.
    """

    def __init__(self, reason: str, exit_code: int = 1, code: str = "", blames: "Optional[int]" = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.exit_code = exit_code
        self.code = code
        self.blames = blames


class Barriers:
    """The folder of one attempt's barriers, where its tasks meet.

    Args:
        path: of the folder.
        task: this one's number.
        tasks: how many there are.
        patience: seconds that a barrier waits for the others.
        room: name of the file that may become what `fail` writes, see `Folder.keep_room`.
    """

    def __init__(self, path: str, task: int, tasks: int, patience: int) -> None:
        self.folder = Folder(path)
        self.task = task
        self.tasks = tasks
        self.patience = patience
        self.room = "spare.%d" % task

    def say(self, name: str) -> None:
        """Says that this task has come as far as `name`. Raises `Failure`."""
        try:
            self.folder.write_text("%s.%d" % (name, self.task))
        except OSError as error:
            raise Failure("the job's directory cannot be written: %s" % (error.strerror or error)) from None

    def has_come(self, name: str, task: int) -> bool:
        """True if a task has said so."""
        return self.folder.has("%s.%d" % (name, task))

    def reach(self, name: str, pause: "Callable[[float], None]") -> None:
        """Says so and waits until all tasks have.

        Args:
            pause: waits so many seconds, and raises what ends the wait, as a signal does.

        Raises:
            Failure: another one has failed, or has not come in time.
        """
        if self.tasks <= 1:
            return
        self.say(name)
        until, task = time.monotonic() + self.patience, 0
        while True:
            while task < self.tasks and self.has_come(name, task):
                task += 1
            if task == self.tasks:
                return
            self.heed_failures()
            if time.monotonic() >= until:
                raise Failure("task %d of %d did not reach '%s' within %d s" % (task, self.tasks, name, self.patience))
            pause(_TICK)
            self.folder.names()

    def heed_failures(self) -> None:
        """Raises the `Failure` of a task that has failed, if any has."""
        found = self.first_failure()
        if found is not None:
            raise Failure(str(found.get("reason", "")), int(found.get("exit_code", 1)), blames=found.get("node"))

    def first_failure(self) -> "Optional[Record]":
        """What the task has left that failed first, by time, as `decisive` in script/markers.py has it."""
        found = [self.folder.read(name) for name in sorted(self.folder.names(), key=_number) if _number(name) >= 0]
        return min(filter(None, found), key=_order, default=None)

    def fail(self, exit_code: int, reason: str, node: int, ended: "Optional[float]" = None) -> None:
        """Tells the others that this task has failed.

        Args:
            node: whose failure it is.
            ended: when it was, seconds since 1970, None for now.
        """
        try:
            when = time.time() if ended is None else ended
            failed = {"exit_code": exit_code, "reason": reason, "node": node, "ended": when}
            self.folder.write("failed.%d" % self.task, failed, self.folder.file(self.room))
        except OSError:
            return  # they find out by the job's end

    def told(self) -> "list[str]":
        """The signals, by name, that the whole job was told of from outside, in their order."""
        found: "list[str]" = []
        while True:
            text = self.folder.text("told.%d" % (len(found) + 1)).strip()
            if not text:
                return found
            found.append(text)


def _number(name: str) -> int:
    """The task whose failure a file tells of, -1 for any other file."""
    word, _, number = name.partition(".")
    return int(number) if word == "failed" and number.isdigit() else -1


def _order(failed: "Record") -> "Tuple[float, int]":
    """One that does not say when it was, as supervisors once wrote it, comes after all that do."""
    return float(failed.get("ended", "inf")), int(failed.get("node", 0))
