"""The processes of one node's Ray: which they are, and that none of them is left, whatever becomes of their keeper.

Ray's servers leave their parent, and its workers rename themselves over their environment. So what belongs to a node's
Ray is told by a variable that all of it is started with, by the session that it is started in, and by its parents.
"""

import os
import time

from nemo_runspec.jobside import processes, signals
from nemo_runspec.jobside.ray_home import remove_tree

MYPY = False
if MYPY:
    from typing import List, Set

MARK = "NEMOTRON_RAY_NODE"
"""The variable; its value is one node's alone."""
SERVERS = ("gcs_server", "raylet")
_ROUNDS = 50
_PAUSE = 0.1
_LAST_FD = 4096


class RayProcesses:
    """Processes of a node. `mark`: the value of their variable. `session`: of what has started them, 0 for none yet."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.session = 0

    def process_ids(self, leave: "Set[int]" = frozenset()) -> "List[int]":  # type: ignore[assignment]
        """Their process ids, without those to `leave` and what has been started by none of them."""
        parents = {pid: parent for pid, (parent, _) in processes.table().items() if pid not in leave}
        found = {pid for pid in parents if self._is_own(pid)}
        more = found
        while more:
            more = {pid for pid, parent in parents.items() if parent in found and pid not in found}
            found |= more
        return sorted(found)

    def _is_own(self, pid: int) -> bool:
        fields = processes.stat_of(pid)
        if self.session and fields and fields[3] == str(self.session):
            return True
        return processes.environment_of(pid).get(MARK) == self.mark

    def servers(self) -> "List[int]":
        """Process ids of the servers that the node is lost without."""
        return [pid for pid in self.process_ids() if _name(pid) in SERVERS]

    def end(self, leave: "Set[int]" = frozenset()) -> "List[int]":  # type: ignore[assignment]
        """Ends all of them; those that are left, which the kernel has not ended."""
        left: "List[int]" = []
        for _ in range(_ROUNDS):
            left = self.process_ids({os.getpid()} | set(leave))
            if not left:
                break
            for pid in left:
                processes.send(pid, signals.KILL)
            time.sleep(_PAUSE)
        return left


class Warden:
    """A process that does nothing until its keeper is gone: then it ends what is left, and removes the folder.

    It is nobody's child: what ends a job by who has started whom, such as Slurm without control groups, finds it as
    little as it finds Ray's servers.

    Args:
        ray: whose processes.
        home: the folder's path.
    """

    def __init__(self, ray: RayProcesses, home: str) -> None:
        self._ray = ray
        told, self._line = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                if os.fork() == 0:
                    self._watch(told, home)
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        os.close(told)

    def tell_session(self, session: int) -> None:
        """Which session Ray is started in."""
        os.write(self._line, b"%d\n" % session)

    def _watch(self, told: int, home: str) -> None:
        try:
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(nothing, number)
            os.dup2(told, 3)
            os.closerange(4, _LAST_FD)
            for chunk in iter(lambda: os.read(3, 64), b""):
                self._ray.session = int(chunk.split()[-1])
            self._ray.end()
            remove_tree(home)
        finally:
            os._exit(0)


def _name(pid: int) -> str:
    words = processes.words_of(pid)
    return words[0].rpartition("/")[2] if words else ""
