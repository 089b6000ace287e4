"""The batch script's supervisor: the process that Slurm signals. It runs the batch script once more, in a shell.

* For the job's own step that shell calls `main.py`, which asks here whether it may begin, and says what it finds.
* Signals that Slurm sends to the batch script (`signal`, always made `B:`; `scancel --batch --signal`) are written to
  `status/gates-<id>-<restarts>/told.N`; the job script on every node hands them to the command alone, once.
* When the script is over, or Slurm ends the job, the attempt's end is decided, once (`attempt_end.py`); one line in
  `status/attempts`. Where it is over the secrets' file is removed, else `scontrol requeue` is called.
"""

import os
import time

from nemo_runspec.backends.slurm.jobside.attempt_end import (
    AttemptEnd,
    Attempts,
    Controller,
    Facts,
    QueueState,
    decide,
    is_near,
    is_put_back,
)
from nemo_runspec.backends.slurm.jobside.job import STEP_END, ControlSocket, end_others, is_last_well, link
from nemo_runspec.jobside import artifacts, processes, registration, secrets, signals
from nemo_runspec.jobside.exit_status import LASTING, UNREGISTERED
from nemo_runspec.jobside.records import remove
from nemo_runspec.jobside.text import say

MYPY = False
if MYPY:
    from typing import Dict, List, Optional, Sequence

    from nemo_runspec.backends.slurm.jobside.job import BatchJob, Message

_IDLE = 60.0
_ENDED_BY_ITSELF = ("done", "cut_short", "cancelled", "slurm")
_AGAIN = "NEMOTRON_BATCH"
"""The variable that tells the batch script that it is run once more: by which Python."""
_STDERR = 101
"""The number of the log in the shell, until it has come to `batch.sh` again: what it traces before was traced once."""


class BatchSupervisor:
    """One attempt of a job.

    Args:
        early: names of signals that came before this supervisor.
    """

    def __init__(self, job: "BatchJob", early: "Sequence[str]" = ()) -> None:
        self._job = job
        self._early = early
        self._controller = Controller(dict(os.environ))
        self._attempts = Attempts(job.status, job.task if job.is_shared else "")
        self._listener = ControlSocket()
        self._state = QueueState()
        self._attempt_end: "Optional[AttemptEnd]" = None
        self._phase = "begin"
        self._interrupted = ""
        self._verdict = ""
        self._without = ""
        self._versions: "List[str]" = []
        self._keys: "Dict[str, str]" = {}

    def run(self, script: "Sequence[str]") -> int:
        """Runs the batch script to its end; the job's exit code.

        Args:
            script: the words that run it.
        """
        try:
            self._job.status.make()
        except OSError:
            pass  # the job script says so
        if self._job.members:
            link(self._job)
        self._keys = artifacts.keys_among(self._job.root)
        for name in self._early:
            self._hear(name)
        if self._job.restarts and not self._begin_again():
            return self._end(1)
        child = self._start(script)
        while not child.has_ended():
            self._answer()
            found = signals.wait(_IDLE)
            if found is not None:
                self._hear(found.name)
        for found in iter(lambda: signals.wait(0.0), None):
            self._hear(found.name)
        self._answer()
        return self._end(child.exit_code)

    def _start(self, script: "Sequence[str]") -> processes.Child:
        environment = dict(os.environ, NEMOTRON_ATTEMPTS=str(self._job.runs))
        del self._controller.environment[_AGAIN]
        nothing = os.open(os.devnull, os.O_WRONLY)
        theirs = self._listener.theirs.fileno()
        fds = {2: nothing, STEP_END: theirs, _STDERR: 2}
        child = processes.start(script, environment, fds, alone=False)
        os.close(nothing)
        self._listener.start()
        return child

    def _begin_again(self) -> bool:
        """What an earlier attempt has left is not believed. One that was cancelled while it waited does not start."""
        note("attempt %d" % (self._job.restarts + 1))
        status = self._job.status
        if not self._job.is_shared:
            for name in status.names():
                if name.startswith(("node-", "rank-")):
                    remove(status.file(name))
        if self._job.cancelled is None:
            return True
        self._controller.say("scancel", self._job.id)
        return False

    def _hear(self, name: str) -> None:
        """A signal for the command, or with TERM the word that Slurm ends the job: KILL follows within KillWait."""
        if self._attempt_end is not None:
            return
        self._state = self._controller.look(self._job.id)
        if self._state.is_ending:
            self._settle(signals.exit_code(signals.TERM))
            return
        note("SIG%s came and is handed to the command" % name)
        self._tell(name)
        if self._phase != "over" and is_near(self._job, self._state, name, time.time()):
            self._interrupted = "SIG%s before the time limit" % name

    def _tell(self, name: str) -> None:
        """Has the job script hand a signal to the command, on every node, also one that is not there yet."""
        barriers, number = self._job.barriers, 1
        while barriers.has("told.%d" % number):
            number += 1
        try:
            barriers.make()
        except OSError:
            return
        barriers.note("told.%d" % number, name)

    def _answer(self) -> None:
        """Answers the step."""
        for message in iter(self._listener.heard, None):
            self._take_in(message)

    def _take_in(self, message: "Message") -> None:
        if message["at"] == "over":
            self._phase = "over"
        elif message["at"] == "begin":
            self._phase = "step"
            self._controller.environment = message["environment"]
            self._versions = message["versions"]
        elif message["at"] == "checked":
            self._verdict, self._without = message["verdict"], message["without"]
        cancelled = self._job.cancelled is not None
        self._listener.answer({"settled": self._attempt_end is not None, "cancelled": cancelled})

    def _end(self, code: int) -> int:
        """Settles what is not settled yet; the job's exit code."""
        if self._attempt_end is None and (
            code or self._job.resume
        ):  # a success that nothing came before needs no question
            self._state = self._controller.look(self._job.id)
        end = self._settle(code)
        if end.name != "over":
            return code
        zero = 0 if code else end.unfinished
        code = code or end.unfinished
        if end.unfinished or end.code == "cut_short":
            self._mark(code, zero, end)
        return code or self._publish(end)

    def _settle(self, code: int) -> AttemptEnd:
        """Decides what becomes of the job after this attempt, and does it. Once."""
        if self._attempt_end is not None:
            return self._attempt_end
        end = self._attempt_end = decide(self._job, self._attempts, self._facts(code))
        self._record_end(end, code)
        if end.name not in ("over", "slurm") and not self._requeue():
            end = self._attempt_end = AttemptEnd("over", end.reason + ", but it cannot be requeued", "", 124)
            self._record_end(end, code)
            # Of a Slurm that is silent nobody knows what it has done: a job that is back needs its secrets.
            if not self._state.name:
                return end
        if end.name == "over":
            self._forget(end)
        return end

    def _facts(self, code: int) -> Facts:
        verdict = self._verdict or self._job.barriers.text("verdict").strip()
        lasting = self._job.barriers.has(LASTING)
        return Facts(code, self._state, self._job.cancelled, verdict, self._interrupted, self._is_unbegun(), lasting)

    def _is_unbegun(self) -> bool:
        """True if the job's own step was never asked for. The profile's lines may have put another srun before ours."""
        if self._phase != "begin":
            return False
        return self._job.is_shared or not any(name.startswith("node-") for name in self._job.status.names())

    def _record_end(self, end: AttemptEnd, code: int) -> None:
        words = (
            "attempt=%d" % self._job.restarts,
            "exit_code=%d" % (code or end.unfinished),
            "fate=" + end.name,
            "ended=%d" % time.time(),
            "reason_code=" + end.code,
            "reason=" + end.reason,
        )
        self._attempts.add(" ".join(words))
        note("attempt %d: %s" % (self._job.restarts + 1, end.reason))

    def _requeue(self) -> bool:
        """Puts the job back; away from bad nodes where some were found."""
        if self._without:
            from nemo_runspec.backends.slurm.jobside.attempt_end import requeue_without

            return requeue_without(self._job, self._controller, self._without)
        return self._controller.insist("scontrol", "requeue", self._job.id, unless=self._is_back)

    def _is_back(self) -> bool:
        self._state = self._controller.look(self._job.id)
        return is_put_back(self._job, self._state)

    def _forget(self, end: AttemptEnd) -> None:
        """The job is over: its secrets go; those of an array with its last task."""
        job = self._job
        if job.is_shared:
            job.status.note("over-" + job.task)
            over = [name for name in job.status.names() if name.startswith("over-") and name[5:].isdigit()]
            if len(over) < int(os.environ.get("SLURM_ARRAY_TASK_COUNT") or 1):
                return
        secrets.forget(job.root + "/secrets.env")
        if job.members and job.ends_all and end.code not in _ENDED_BY_ITSELF:
            end_others(job, self._controller)

    def _mark(self, code: int, zero: int, end: AttemptEnd) -> None:
        """Has the nodes' records say what the job script could not know: why the job is over, and `zero` for 0.

        Without a record, there is one of the first node then.
        """
        status = self._job.status
        if self._job.is_shared and end.code != registration.REGISTRATION:  # the last task of an array speaks for all
            return
        names = [name for name in status.names() if name.startswith("node-") and not name.endswith(".tmp")]
        for name in names:
            record = status.read(name)
            if not record:
                continue
            record["exit_code"] = record.get("exit_code") or zero
            if not record.get("reason"):
                record.update(reason=end.reason, reason_code=record.get("reason_code") or end.code)
            write_record(self._job, name, record)
        if not names:
            host = os.environ.get("SLURMD_NODENAME", "")
            write_record(self._job, "node-0", start_record(self._job, 0, host, code, end.reason, end.code))

    def _publish(self, end: AttemptEnd) -> int:
        """What the job has made becomes the newest version of its artifact; the job's exit code, once it is, or not.

        The tasks of an array of the user's own make one version together.
        """
        if end.code not in ("done", "cut_short") or (self._job.is_shared and not is_last_well(self._job)):
            return 0
        said = registration.register(self._versions, registration.JobPlace(self._job.root, self._keys))
        if not said:
            return 0
        code = UNREGISTERED
        failed = AttemptEnd("over", registration.unregistered(said), registration.REGISTRATION, code)
        self._record_end(failed, code)
        self._mark(code, code, failed)
        return code


def note(text: str) -> None:
    """Says a line of nemotron's own in the batch script's log."""
    say(text, 1)


def start_record(job: "BatchJob", node: int, host: str, code: int, reason: str, reason_code: str) -> "Message":
    """The record of a node whose job script has left none."""
    return {
        "node": node,
        "host": host,
        "phase": "start",
        "exit_code": code,
        "attempt": job.restarts,
        "reason": reason,
        "reason_code": reason_code,
        "started": job.began,
        "ended": int(time.time()),
    }


def write_record(job: "BatchJob", name: str, record: "Message") -> None:
    """Writes a node's record; the attempt's line says the same where it cannot be."""
    try:
        job.status.write(name, record)
    except OSError:
        return
