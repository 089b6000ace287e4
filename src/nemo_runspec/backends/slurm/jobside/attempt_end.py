"""Decides, once, what becomes of a job after an attempt, and talks with Slurm's controller from a batch script.

What Slurm says and does was seen with 22.05. There, as root and as a plain user, ExcNodeList of a running job cannot be
changed ("Job is no longer pending execution"). It can once the job is put back and held, by the very batch script that
Slurm is ending then: there is KillWait (30 s by default) before it is killed, and some 20 ms are needed.
"""

import os
import re
import time

from nemo_runspec.jobside import processes
from nemo_runspec.jobside.records import remove

MYPY = False
if MYPY:
    from typing import Callable, Dict, Optional

    from nemo_runspec.backends.slurm.jobside.job import BatchJob
    from nemo_runspec.jobside.records import Folder


_SECONDS = 20.0
_TRIES = 3

_FIELDS = ("State", "Reason", "PreemptTime", "RestartCnt", "EndTime")
_ANSWER = re.compile(r"^([A-Z_]+)\|([^|\n]*)\|([^|\n]*)\|([^|\n]*)\|([^|\n]*)\|", re.MULTILINE)
"""A site's wrapper may say something before or after it."""

_ENDING = re.compile(
    r"COMPLET|CANCELLED|FAILED$|TIMEOUT$|DEADLINE$|PREEMPTED$|OUT_OF_MEMORY$|.*_FAIL$|PENDING$|REQUEUE"
)


class QueueState:
    """What Slurm says of a job.

    Of a job that it ends, the state is COMPLETING whatever the cause; the cause is in the reason (TimeLimit), the time
    of preemption, or the count of restarts, which is higher once it is to start again.

    Args:
        name: '' where it does not answer.
        reason: Slurm's word.
        preempted, ends: seconds since 1970, -1 for none.
        starts: how often it was started again, -1 where that is not known.
    """

    def __init__(self, name: str = "", reason: str = "", preempted: str = "", starts: str = "", ends: str = "") -> None:
        self.name = name
        self.reason = reason
        self.preempted, self.starts, self.ends = (_number(text) for text in (preempted, starts, ends))

    @property
    def is_ending(self) -> bool:
        """True if Slurm ends the job or has done so; told of its time limit it is RUNNING, or SIGNALING just then."""
        return _ENDING.match(self.name) is not None


class Controller:
    """Slurm's commands.

    Args:
        environment: in which they are called.
    """

    def __init__(self, environment: "Dict[str, str]") -> None:
        self.environment = environment

    def ask(self, *words: str) -> str:
        """squeue's answer, '' where there is none.

        A busy controller may refuse: it is asked again, unless it was silent.
        """
        environment = {name: value for name, value in self.environment.items() if not name.startswith("SQUEUE_")}
        environment["SLURM_TIME_FORMAT"] = "%s"
        for again in range(_TRIES):
            if again:
                time.sleep(1)
            code, said = processes.run(["squeue", "--noheader", *words], environment, _SECONDS)
            if code in (0, processes.LATE):
                return "" if code else said
        return ""

    def look(self, id: str) -> QueueState:
        """What it says of a job."""
        fields = "--Format=" + ",".join(name + ":|" for name in _FIELDS)
        found = _ANSWER.search(self.ask("--states=all", "--jobs=" + id, fields))
        return QueueState(*found.groups()) if found else QueueState()

    def say(self, *words: str) -> str:
        """What another of Slurm's commands answers."""
        return processes.run(words, self.environment, 3 * _SECONDS)[1]

    def insist(self, *words: str, unless: "Callable[[], bool]" = lambda: False) -> bool:
        """scontrol or scancel, three times where it must be; whether it could be done.

        A busy controller does not answer at once, and what it has not answered it may have done.

        Args:
            unless: whether it has been done nevertheless.
        """
        for again in range(_TRIES):
            if again:
                time.sleep(2)
            code, said = processes.run(words, self.environment, 6 * _SECONDS)
            _pass_on(said)
            if code == 0 or unless():
                return True
        return False


def _pass_on(said: str) -> None:
    try:
        os.write(1, said.encode("utf-8", "replace"))
    except OSError:
        return


def _number(text: str) -> int:
    return int(text) if text.isdigit() else -1


class AttemptEnd:
    """The outcome of an attempt.

    Args:
        name: `over`, `retried`, `continued`, `requeued` (a part of ours asked for it) or `slurm` (Slurm starts it again
            itself).
        reason: for people.
        code: what decides (`REASONS` in script/markers.py), '' for none.
        unfinished: the exit code of a job that is not done although its command says 0; 0 for none.
    """

    def __init__(self, name: str, reason: str, code: str = "", unfinished: int = 0) -> None:
        self.name = name
        self.reason = reason
        self.code = code
        self.unfinished = unfinished


class Attempts:
    """The file with a line for every attempt."""

    def __init__(self, status: "Folder", task: str) -> None:
        self._file = status.file("attempts" + ("-" + task if task else ""))

    def count(self, end: str) -> int:
        """How many attempts had it."""
        try:
            with open(self._file, encoding="utf-8", errors="replace") as lines:
                return sum(1 for line in lines if " fate=%s " % end in line)
        except OSError:
            return 0

    def add(self, line: str) -> None:
        """Appends one."""
        try:
            with open(os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as stream:
                stream.write(line.encode("utf-8", "replace") + b"\n")
        except OSError:
            return  # a full disk; the reason is in the log


class Facts:
    """What is known at the end of an attempt.

    Args:
        exit_code: the batch script's own.
        state: what Slurm says of the job.
        cancelled: who wants it to be over, None for nobody.
        verdict: `requeue REASON` or `stop REASON` of a part of ours, '' for none.
        interrupted: why it was cut short, '' where it was not told.
        unbegun: the job's own step was never asked for.
        lasting: it failed by what another attempt would only repeat.
    """

    def __init__(
        self,
        exit_code: int,
        state: QueueState,
        cancelled: "Optional[str]" = None,
        verdict: str = "",
        interrupted: str = "",
        unbegun: bool = False,
        lasting: bool = False,
    ) -> None:
        self.exit_code = exit_code
        self.state = state
        self.cancelled = cancelled
        self.verdict = verdict
        self.interrupted = interrupted
        self.unbegun = unbegun
        self.lasting = lasting


def decide(job: "BatchJob", attempts: Attempts, facts: Facts) -> AttemptEnd:
    """What becomes of the job."""
    cut = why_cut_short(job, facts)
    if facts.cancelled is not None:
        return AttemptEnd("over", "cancelled by " + facts.cancelled, "cancelled")
    if is_put_back(job, facts.state):
        return AttemptEnd("slurm", "Slurm starts the job again")
    if facts.verdict:
        action, _, reason = facts.verdict.partition(" ")
        return AttemptEnd("requeued" if action == "requeue" else "over", reason)
    if cut:
        return _by_resume(job, attempts, facts, cut)
    if facts.state.is_ending:
        return AttemptEnd("over", "Slurm ended the job", "slurm")
    if facts.unbegun:
        reason = "setup_lines ended the batch script before its command"
        return _by_retries(job, attempts, AttemptEnd("over", reason, "setup_lines", 1))
    if facts.exit_code == 0:
        return AttemptEnd("over", "done", "done")
    if facts.lasting:
        return AttemptEnd("over", "exit code %d, which another attempt would only repeat" % facts.exit_code)
    return _by_retries(job, attempts, AttemptEnd("over", "exit code %d" % facts.exit_code))


def why_cut_short(job: "BatchJob", facts: Facts) -> str:
    """Why an attempt was, '' where it was not."""
    if is_preempted(job, facts.state):
        return "it was preempted"
    return "its time limit was reached" if facts.state.reason == "TimeLimit" else facts.interrupted


def is_preempted(job: "BatchJob", state: QueueState) -> bool:
    """True if this attempt is, not one before."""
    return state.preempted >= job.began


def is_put_back(job: "BatchJob", state: QueueState) -> bool:
    """True if the job has been put back into the queue since this attempt began."""
    return state.starts > job.restarts


def is_near(job: "BatchJob", state: QueueState, name: str, now: float) -> bool:
    """True if a signal is the one before the time limit, or before a preemption, and not one that somebody sent.

    Slurm sends it up to a minute early.
    """
    if not state.name:
        return name == job.signal
    if is_preempted(job, state):
        return True
    return job.lead > 0 and state.ends >= 0 and state.ends - int(now) <= job.lead + 90


def _by_retries(job: "BatchJob", attempts: Attempts, end: AttemptEnd) -> AttemptEnd:
    if attempts.count("retried") >= job.retries:
        return end
    reason = "%s; the job is tried again (%d retries)" % (end.reason, job.retries)
    return AttemptEnd("retried", reason, "", end.unfinished)


def _by_resume(job: "BatchJob", attempts: Attempts, facts: Facts, cut: str) -> AttemptEnd:
    """An attempt that was cut short is continued, whatever its command's exit code says.

    Where it may not be, the job is not done. Without `resume`, a command that ends with 0 before Slurm ends it says
    that it is.
    """
    if not job.resume:
        unfinished = 124 if facts.state.is_ending else 0
        if facts.exit_code == 0 and not unfinished:
            return AttemptEnd("over", "done, though cut short: " + cut, "cut_short")
        return AttemptEnd("over", cut, "", unfinished)
    if job.restarts - attempts.count("retried") - attempts.count("requeued") >= job.max_restarts:
        return AttemptEnd("over", "%s; max_restarts = %d is reached" % (cut, job.max_restarts), "restarts", 124)
    return AttemptEnd("continued", cut + "; the job is continued")


HELD = "held"
"""The record that says which, should this process be killed before it is through."""


def requeue_without(job: "BatchJob", controller: "Controller", nodes: str) -> bool:
    """Puts the job back, without these nodes (comma-separated); whether that could be done."""
    held = job.status.file(HELD)
    if not job.status.note(HELD, nodes + "\n"):
        return False
    is_held = controller.insist(
        "scontrol", "requeuehold", job.id, unless=lambda: is_put_back(job, controller.look(job.id))
    )
    if not is_held:
        remove(held)
        return False
    controller.insist("scontrol", "update", "JobId=" + job.id, "ExcNodeList=" + nodes)
    done = controller.insist("scontrol", "release", job.id)
    if done:
        remove(held)
    return done
