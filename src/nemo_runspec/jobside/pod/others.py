"""Waits, on node 0 of a job of pods, for the other nodes.

A PyTorchJob ends with its master, and outputs are whole only once all nodes have made theirs.
"""

import time

from nemo_runspec.jobside.exit_status import Ended
from nemo_runspec.jobside.pod.life import exit_code_of, has_begun, last_sign
from nemo_runspec.jobside.text import say

MYPY = False
if MYPY:
    from typing import Callable, Optional, Set

    from nemo_runspec.jobside.pod.pod import PodRun

    ExitCodeQuery = Callable[[int], Optional[int]]

_LOOK = 0.5
_PATIENCE = 120.0
"""Seconds that node 0, which has failed itself, waits for the others' commands: they are ended within 40 s then
(`watch.py`), and their outputs may be copied yet."""


class Others:
    """The other nodes of a job, as its node 0 sees them."""

    def __init__(self, pod: "PodRun") -> None:
        self._pod = pod
        self._missing: "Set[int]" = set()
        self._until: "Optional[float]" = None

    def wait_for_commands(self, code: int) -> Ended:
        """Waits until the others have ended their commands. Told to stop it waits no more."""
        return self._wait(self._command_of, code)

    def wait_for_ends(self, code: int) -> Ended:
        """Waits until their pods have ended, which copy outputs too; as long as the platform lets it."""
        return self._wait(self._end_of, code)

    def _wait(self, question: "ExitCodeQuery", code: int) -> Ended:
        """What node 0, which ends with `code` so far, ends with: that, else as the first of them that has failed.

        After its own failure it waits only for the sake of outputs.
        """
        pod = self._pod
        ended = Ended(code)
        if pod.index != 0 or (code and "put" not in pod.job.moves):
            return ended
        for node in range(1, pod.job.nodes):
            if node in self._missing:
                continue
            if ended.exit_code and question == self._command_of and self._until is None:
                self._until = time.monotonic() + _PATIENCE
            found = self._answer(question, node)
            if not ended.exit_code and found != 0:
                ended = self._follow(node, found)
        return self._or_before(ended)

    def _answer(self, question: "ExitCodeQuery", node: int) -> "Optional[int]":
        """An exit code. None: this node was told to stop while the other's command runs, the other has shown no sign
        of life for long, or the time is up. Such a node is not asked again."""
        pod, folder = self._pod, self._pod.barriers.folder
        for_command = question == self._command_of
        seen: "Optional[int]" = None
        since = time.monotonic()
        while True:
            for place in (pod.status, folder):
                place.names()  # a network file system looks again
            found = question(node)
            if found is not None:
                return found
            sign, now = last_sign(folder, node), time.monotonic()
            if sign != seen:
                seen, since = sign, now
            late = for_command and self._until is not None and now >= self._until
            if late or now - since >= pod.lost or (for_command and pod.told):
                self._missing.add(node)
                return None
            pod.pause(_LOOK)

    def _follow(self, node: int, code: "Optional[int]") -> Ended:
        """Why this node fails with that one; all others may know, which would wait for it."""
        pod = self._pod
        if code is not None:
            return Ended(code, reason="node %d failed: exit code %d" % (node, code), blames=node)
        if pod.told:
            reason = "the job was told to stop (SIG%s) before node %d had ended" % (pod.told, node)
            return Ended(pod.stopped, reason=reason)
        reason = "node %d failed: it has shown no sign of life for %d s" % (node, pod.lost)
        say(reason)
        pod.barriers.fail(1, reason, node)
        return Ended(1, reason=reason, blames=node)

    def _or_before(self, ended: Ended) -> Ended:
        """What this node ends with: as another one, or as the one that had failed before that."""
        first = self._pod.barriers.first_failure()
        if ended.blames is None or first is None or first.get("node") in (None, ended.blames, self._pod.index):
            return ended
        return self._follow(int(first["node"]), int(first["exit_code"]))

    def _command_of(self, node: int) -> "Optional[int]":
        """The exit code of its command, or of what failed before it; None as long as it runs."""
        pod, folder = self._pod, self._pod.barriers.folder
        record = pod.status.read("node-%d" % node)
        # Until a node has begun in this life of the job, its record is of another one.
        begun = pod.lives <= 1 or has_begun(folder, node)
        if begun and str(record.get("attempt")) == pod.job.attempt:
            return int(record["exit_code"])
        failed = folder.read("failed.%d" % node)
        return int(failed["exit_code"]) if failed else self._end_of(node)

    def _end_of(self, node: int) -> "Optional[int]":
        """The exit code of its pod."""
        return exit_code_of(self._pod.barriers.folder, node)
