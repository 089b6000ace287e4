"""The end of a node: what its exit code is, what is written down of it, what becomes of what it has made."""

import os
import time

from nemo_runspec.jobside import artifacts, forward, secrets, signals
from nemo_runspec.jobside.exit_status import Ended
from nemo_runspec.jobside.gates import Failure
from nemo_runspec.jobside.text import say

MYPY = False
if MYPY:
    from nemo_runspec.jobside.node import NodeRun

_LINGER = 60.0


def judge(node: "NodeRun", ended: Ended) -> Ended:
    """Why the command has ended: a watch that ended it, another node's failure, the rank that failed first."""
    if ended.exit_code == 0:
        return ended
    stalled = node.gates.folder.read("stalled")
    if stalled:
        return _stalled(node, stalled)
    if node.job.tasks > 1:
        try:
            node.gates.heed_failures()
        except Failure as failure:
            return Ended(failure.exit_code, ended.signal, None, failure.reason, blames=failure.blames, ran=True)
    if node.job.launch == "torchrun" and node.is_stopped and not node.ranks.have_begun:
        # What a launcher that still starts makes of a signal may be any exit code.
        reason = "the job was told to stop (SIG%s) before its ranks had begun" % node.received
        return Ended(signals.exit_code(signals.number_of(node.received)), reason=reason, ran=True)
    return _of_rank(node, ended)


def _of_rank(node: "NodeRun", ended: Ended) -> Ended:
    """The end of the rank that failed first. One without a record comes before those that were stopped for it."""
    first, unrecorded = node.ranks.first_failure(), node.ranks.unrecorded()
    if unrecorded is not None and (first is None or first.get("stopped")):
        reason = "rank %d left no record: its supervisor was killed, or the disk is full" % unrecorded
        return Ended(ended.exit_code, ended.signal, unrecorded, reason, ran=True)
    if first is None:
        return ended
    return Ended(int(first["exit_code"]), first.get("signal"), int(first["rank"]), ran=True)


def _stalled(node: "NodeRun", stalled: "dict[str, str]") -> Ended:
    """As a timeout ends (man timeout). `verdict` is for the platform's side of the job."""
    reason = str(stalled.get("reason", ""))
    if node.job.task == 0:
        node.gates.folder.note("verdict", "%s %s\n" % (stalled.get("action", "stop"), reason))
    return Ended(124, None, None, reason, "stall", ran=True)


def finish(node: "NodeRun", ended: Ended) -> int:
    """Writes the node's record and tells the others; its exit code."""
    code = ended.exit_code
    reason = ended.reason or _reason(node, ended)
    if reason:
        say("%s (exit code %d)" % (reason, code))
    well = code == 0 and node.received in ("", "USR1", "USR2")
    if well:
        _publish(node)
    if code:
        failed = " (rank %d)" % ended.rank if ended.rank is not None else ""
        blamed = node.job.node if ended.blames is None else ended.blames
        node.gates.fail(code, reason or "node %d failed%s" % (node.job.node, failed), blamed)
    _write(node, ended, reason)
    node.give_room_back()
    if node.job.task == 0 and not node.job.has("requeues") and node.job.has("secrets_file"):
        secrets.forget(node.job.secrets)
    if node.job.has("ends_all"):
        node.gates.folder.note("ended.%d" % node.job.task)
        if code:
            _linger(node)
    if well and node.job.nodes > 1:
        _publish(node)
    if node.job.task == 0:
        forward.settle(node.job.root, node.status, code, stopped=bool(node.received))
    _give_away(node)
    return code


def _reason(node: "NodeRun", ended: Ended) -> str:
    """In words, of a node that failed before its command: its exit code does not say so."""
    if ended.ran or ended.exit_code == 0:
        return ""
    if node.phase.startswith("setup"):
        return "node %d failed in its %s" % (node.job.node, node.phase)
    return "node %d failed before its command started" % node.job.node


def _write(node: "NodeRun", ended: Ended, reason: str) -> None:
    told = node.gates.told()
    record = {
        "node": node.job.node,
        "host": os.uname().nodename,
        "phase": node.phase.partition(":")[0],
        "exit_code": ended.exit_code,
        "signal": ended.signal,
        "rank": ended.rank,
        "oom": node.oom_kills.any,
        "received": node.received or (told[-1] if told else ""),
        "attempt": node.job.restarts,
        "reason": reason,
        "reason_code": ended.code,
        "blames": ended.blames,
        "started": node.started,
        "ended": time.time(),
    }
    record.update(node.given())
    try:
        node.status.write(node.job.marker, record, node.status.file(node.room))
    except OSError as error:
        say("how this node ended cannot be written down: %s" % (error.strerror or error))


def _publish(node: "NodeRun") -> None:
    """What the job has made becomes the newest version of its artifact, where only this side sees that it ended well.

    Of several nodes the last one does it, before it says that it has ended; of two that end at once, both do
    afterwards.
    """
    others = (number for number in range(node.job.nodes) if number != node.job.node)
    if all(node.status.read("node-%d" % number).get("exit_code") == 0 for number in others):
        for line in artifacts.register(node.job.versions):
            say(line)


def _linger(node: "NodeRun") -> None:
    """Waits for the records and last lines of the others, which the platform would end with this task.

    They see that it has failed, and end within 40 s (`watch.py`).
    """
    until = time.monotonic() + _LINGER
    while time.monotonic() < until:
        there = set(node.gates.folder.names())
        tasks = [name[len("here.") :] for name in there if name.startswith("here.")]
        if all("ended.%s" % task in there for task in tasks):
            return
        time.sleep(0.5)


def _give_away(node: "NodeRun") -> None:
    owner = os.environ.get("NEMOTRON_OWNER", "")
    if not owner or os.geteuid() != 0:
        return
    beside = [path.rpartition("/")[0] for path in node.job.versions]
    folders = dict.fromkeys([node.job.root, node.job.setting("NEMO_RUN_DIR"), *beside])
    if not artifacts.give_away(owner, [folder for folder in folders if folder], node.begun):
        say("not all that root made could be given to its owner (%s)" % owner)
