"""One rank: its command, its output, its record.

Under direct and ray the node's supervisor has it itself; torchrun starts `job.sh --rank` for each, which becomes a
supervisor of its own.
"""

import os
import time

from nemo_runspec.jobside import processes, signals
from nemo_runspec.jobside.delivery import TICK, Delivery
from nemo_runspec.jobside.output import RankOutput
from nemo_runspec.jobside.records import Folder
from nemo_runspec.jobside.shell import OUTPUT

MYPY = False
if MYPY:
    from typing import Dict, List

    from nemo_runspec.jobside.job import JobTask
    from nemo_runspec.jobside.processes import Child

_IDLE = 60.0
_LAST_LINES = 5.0
"""Seconds for the last lines, where a process that the command has left behind holds the pipe open."""

NODE_SUPERVISOR = "NEMOTRON_SUPERVISOR"
"""The variable by which a rank's supervisor knows its node's: a process id."""


class RankRun:
    """One rank's output and record. `stopped`: whether its launcher has ended it, because another rank had failed.

    Args:
        number: among all of the job's.
        tag: what comes before its lines.
        hidden: the values of secrets.
    """

    def __init__(self, status: Folder, number: int, tag: str, hidden: "List[bytes]") -> None:
        self.number = number
        self.stopped = False
        self._status = status
        source, self.pipe = os.pipe()
        self._output = RankOutput(source, tag, hidden)

    def listen(self) -> None:
        """Starts to pass its output on."""
        self._output.start()

    def conclude(self, child: "Child", room: str = "") -> None:
        """Writes down how its command has ended, then passes its last lines on. `room`: as for `Folder.write`."""
        ended = time.time()
        self._write(child, ended)
        self._output.wait(_LAST_LINES)
        self._write(child, ended, room)

    def given(self) -> "Dict[str, int]":
        """What it has given to the log: `lines`, `size` in bytes, and `lost`, lines that could not be written."""
        return {"lines": self._output.lines, "size": self._output.size, "lost": self._output.lost}

    def _write(self, child: "Child", ended: float, room: str = "") -> None:
        record: "Dict[str, object]" = {
            "rank": self.number,
            "exit_code": child.exit_code,
            "signal": child.signal,
            "ended": ended,
            "stopped": self.stopped,
        }
        record.update(self.given())
        try:
            self._status.write("rank-%d" % self.number, record, room)
        except OSError:
            return  # the node's own record has what the launcher says


def hidden_values(names: "List[str]", environment: "Dict[str, str]") -> "List[bytes]":
    """The values of secrets, by the names of their variables."""
    return [os.fsencode(environment[name]) for name in names if environment.get(name)]


def supervise(job: "JobTask", script: str) -> int:
    """Runs the command of one rank that torchrun has started; its exit code."""
    number = int(os.environ["RANK"])
    status, barriers = Folder(job.status), Folder(job.barriers)
    rank = RankRun(status, number, job.tag(number), hidden_values(job.hidden, dict(os.environ)))
    mine = {"pid": os.getpid(), "started": processes.started(os.getpid())}
    source = {} if job.source is None else {0: job.source}
    child = processes.start(["bash", script, "--command"], dict(os.environ), {OUTPUT: rank.pipe, **source})
    os.close(rank.pipe)
    rank.listen()
    note = {**mine, "group": child.pid, "group_started": processes.started(child.pid)}
    try:
        barriers.write("rank.%d" % number, note)
    except OSError:
        pass  # a full disk: signals to the whole job do not reach this rank
    heard: "set[int]" = set()
    delivery = Delivery(child)
    while not child.has_ended():
        found = signals.wait(TICK if delivery.waits else _IDLE)
        rank.stopped |= found is not None and found.stops and _is_launchers(found)
        if found is not None and _is_for_command(job, found, heard):
            delivery.tell(found.number)
        delivery.go_on()
    rank.conclude(child, barriers.file("rank.%d" % number))  # nobody asks for its supervisor any more
    return child.exit_code


def _is_for_command(job: "JobTask", found: signals.Signal, heard: "set[int]") -> bool:
    """True if to pass a signal on. Where the platform signals every process, the command has had that one already.

    What the node's supervisor sends is for the command in any case. The launcher passes on what it was told itself,
    which is no news then; by itself it ends ranks once another has failed.
    """
    if not job.has("signals_all") or str(found.sender) == os.environ.get(NODE_SUPERVISOR):
        return True
    is_news = found.number not in heard
    heard.add(found.number)
    return is_news and _is_launchers(found)


def _is_launchers(found: signals.Signal) -> bool:
    return found.sender == os.getppid()
