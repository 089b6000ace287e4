"""What Slurm is asked, and told, from a batch script. What it says and does was seen with 22.05."""

import os
import re
import select
import time

from nemo_runspec.jobside import processes, signals

MYPY = False
if MYPY:
    from typing import Callable, Dict, List, Optional, Sequence, Tuple

_SECONDS = 20.0
_TRIES = 3
_LATE = 124

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
        name: '' where it does not answer. `reason`: Slurm's word. `preempted`, `ends`: seconds since 1970, -1 for none.
        starts: how often it was started again, -1 where that is not known.
    """

    def __init__(self, name: str = "", reason: str = "", preempted: str = "", starts: str = "", ends: str = "") -> None:
        self.name = name
        self.reason = reason
        self.preempted, self.starts, self.ends = (_number(text) for text in (preempted, starts, ends))

    @property
    def is_ending(self) -> bool:
        """Whether Slurm ends the job or has done so; told of its time limit it is RUNNING, or SIGNALING just then."""
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
            code, said = run(["squeue", "--noheader", *words], environment, _SECONDS)
            if code in (0, _LATE):
                return "" if code else said
        return ""

    def look(self, id: str) -> QueueState:
        """What it says of a job."""
        fields = "--Format=" + ",".join(name + ":|" for name in _FIELDS)
        found = _ANSWER.search(self.ask("--states=all", "--jobs=" + id, fields))
        return QueueState(*found.groups()) if found else QueueState()

    def say(self, *words: str) -> str:
        """What another of Slurm's commands answers."""
        return run(words, self.environment, 3 * _SECONDS)[1]

    def insist(self, *words: str, unless: "Callable[[], bool]" = lambda: False) -> bool:
        """scontrol or scancel, three times where it must be; whether it could be done.

        A busy controller does not answer at once, and what it has not answered it may have done.

        Args:
            unless: whether it has been done nevertheless.
        """
        for again in range(_TRIES):
            if again:
                time.sleep(2)
            code, said = run(words, self.environment, 6 * _SECONDS)
            _pass_on(said)
            if code == 0 or unless():
                return True
        return False


def run(words: "Sequence[str]", environment: "Dict[str, str]", seconds: float) -> "Tuple[int, str]":
    """A command's exit code and output; 124 where it has not ended in time, and is killed.

    It hears no signal: Slurm sends TERM to every process of a job that it ends, and at the time limit twice: that would
    end the very command that says or does what the first one led to.
    """
    source, target = os.pipe()
    try:
        child = processes.start(words, environment, {1: target}, ignored=signals.HEARD)
    except OSError:
        return 127, ""
    finally:
        os.close(target)
    try:
        said = _read(source, time.monotonic() + seconds)
    finally:
        os.close(source)
    until = time.monotonic() + (0.2 if said is None else seconds)
    while not child.has_ended() and time.monotonic() < until:
        time.sleep(0.01)
    if not child.has_ended():
        processes.end_tree(child.pid)
        os.waitpid(child.pid, 0)
        return _LATE, ""
    return child.exit_code, said or ""


def _read(source: int, until: float) -> "Optional[str]":
    """All that comes until its end, None where that has not come in time."""
    chunks: "List[bytes]" = []
    while True:
        if not select.select([source], [], [], max(0.0, until - time.monotonic()))[0]:
            return None
        chunk = os.read(source, 65536)
        if not chunk:
            return b"".join(chunks).decode("utf-8", "replace")
        chunks.append(chunk)


def _pass_on(said: str) -> None:
    try:
        os.write(1, said.encode("utf-8", "replace"))
    except OSError:
        return


def _number(text: str) -> int:
    return int(text) if text.isdigit() else -1
