"""The end of a node: what its exit code is, what is written down of it, what becomes of what it has made."""

import os
import time

from nemo_runspec.jobside import artifacts, forward, registration, secrets, signals, wandb_artifacts
from nemo_runspec.jobside.barriers import Failure
from nemo_runspec.jobside.exit_status import LASTING, Ended
from nemo_runspec.jobside.text import say

MYPY = False
if MYPY:
    from nemo_runspec.jobside.node import NodeRun

_OTHERS_S = 60.0
_OTHERS = 600.0
"""Seconds that node 0 waits for the other nodes' ends, where W&B is told of what all of them have made."""
_REPEATED = ("artifact",)
"""Of `REASONS` in script/markers.py: an input or output that is not as its type wants it."""


def judge(node: "NodeRun", ended: Ended) -> Ended:
    """Why the command has ended: a watch that ended it, another node's failure, the rank that failed first."""
    if ended.exit_code == 0:
        return ended
    stalled = node.barriers.folder.read("stalled")
    if stalled:
        return _stalled(node, stalled)
    if node.job.tasks > 1:
        try:
            node.barriers.heed_failures()
        except Failure as failure:
            return Ended(failure.exit_code, ended.signal, None, failure.reason, blames=failure.blames, ran=True)
    if ended.reason:
        return ended
    if node.job.launch == "torchrun" and node.is_stopped and not node.ranks.have_begun:
        # What a launcher that still starts makes of a signal may be any exit code.
        reason = "the job was told to stop (SIG%s) before its ranks had begun" % node.received
        return Ended(signals.exit_code(signals.number_of(node.received)), reason=reason, ran=True)
    return _of_rank(node, ended)


def _of_rank(node: "NodeRun", ended: Ended) -> Ended:
    """The end of the rank that failed first. One without a record comes before those that were stopped for it."""
    first, unrecorded = node.ranks.first_failure(), node.ranks.unrecorded()
    if unrecorded is not None and (first is None or first.get("stopped")):
        who = "rank %d" % unrecorded if node.job.has_ranks else "the command"
        reason = "%s left no record: its supervisor was killed, or the disk is full" % who
        return Ended(ended.exit_code, ended.signal, unrecorded if node.job.has_ranks else None, reason, ran=True)
    if first is None:
        return ended
    rank = int(first["rank"]) if node.job.has_ranks else None
    return Ended(int(first["exit_code"]), first.get("signal"), rank, ran=True)


def _stalled(node: "NodeRun", stalled: "dict[str, str]") -> Ended:
    """As a timeout ends (man timeout). `verdict` is for the platform's side of the job."""
    reason = str(stalled.get("reason", ""))
    if node.job.task == 0:
        node.barriers.folder.note("verdict", "%s %s\n" % (stalled.get("action", "stop"), reason))
    return Ended(124, None, None, reason, "stall", ran=True)


def finish(node: "NodeRun", ended: Ended) -> int:
    """Writes the node's record and tells the others; its exit code."""
    well = ended.exit_code == 0 and node.received in ("", "USR1", "USR2")
    if well:
        ended = _published(node, ended)
    _tell(node, ended)
    node.give_room_back()
    if node.job.task == 0 and not node.job.has("requeues") and node.job.has("secrets_file"):
        secrets.forget(node.job.secrets)
    if node.job.has("ends_all"):
        node.barriers.folder.note("ended.%d" % node.job.task)
        if ended.exit_code:
            _wait_for_others(node)
    well = well and not ended.exit_code
    if well and node.job.nodes > 1:
        ended = _published(node, ended)
        if ended.exit_code:
            _tell(node, ended)
    if node.job.task == 0:
        registers = well and bool(wandb_artifacts.expected(node.job.root)) and _store_has_it(node)
        stopped = bool(node.received)
        forward.settle(node.job.root, node.status, ended.exit_code, stopped=stopped, registers=registers)
    _give_away(node)
    return ended.exit_code


def _tell(node: "NodeRun", ended: Ended) -> None:
    """Says how the node has ended: in the log, to the others, in its record."""
    code, reason, when = ended.exit_code, ended.reason or _reason(node, ended), time.time()
    if reason:
        say("%s (exit code %d)" % (reason, code))
    if code and not ended.follows:
        failed = " (rank %d)" % ended.rank if ended.rank is not None else ""
        blamed = node.job.node if ended.blames is None else ended.blames
        node.barriers.fail(code, reason or "node %d failed%s" % (node.job.node, failed), blamed, when)
        if ended.code in _REPEATED:
            node.barriers.folder.note(LASTING, ended.code)
    _write(node, ended, reason, when)


def _reason(node: "NodeRun", ended: Ended) -> str:
    """In words, of a node that failed before its command: its exit code does not say so."""
    if ended.ran or ended.exit_code == 0:
        return ""
    if node.phase.startswith("setup"):
        return "node %d failed in its %s" % (node.job.node, node.phase)
    return "node %d failed before its command started" % node.job.node


def _write(node: "NodeRun", ended: Ended, reason: str, when: float) -> None:
    told = node.barriers.told()
    record = {
        "node": node.job.node,
        "host": os.uname().nodename,
        "phase": node.phase.partition(":")[0],
        "exit_code": ended.exit_code,
        "signal": ended.signal,
        "rank": ended.rank,
        "oom": node.oom_kills.any,
        "open_files": [node.open_files.before, node.open_files.now],
        "received": node.received or (told[-1] if told else ""),
        "attempt": node.job.restarts,
        "reason": reason,
        "reason_code": ended.code,
        "blames": ended.blames,
        "started": node.started,
        "ended": when,
    }
    record.update(node.given())
    try:
        node.status.write(node.job.marker, record, node.status.file(node.room))
    except OSError as error:
        say("how this node ended cannot be written down: %s" % (error.strerror or error))


def _published(node: "NodeRun", ended: Ended) -> Ended:
    """What the job has made becomes the newest version of its artifact, where only this side sees that it ended well.

    Of several nodes the last one does it, before it says that it has ended; of two that end at once, both do
    afterwards. Where that cannot be, the job has not ended well: what reads the newest version would read an older one.
    """
    others = (number for number in range(node.job.nodes) if number != node.job.node)
    if all(node.status.read("node-%d" % number).get("exit_code") == 0 for number in others):
        return registration.published(ended, node.job.versions, registration.JobPlace(node.job.root, node.keys))
    return ended


def _store_has_it(node: "NodeRun") -> bool:
    """Has what the job made registered by its store, before W&B is told; whether it is, and all nodes have ended well.

    Where the job's platform does that otherwise, it finds it done.
    """
    until = time.monotonic() + _OTHERS
    others = ["node-%d" % number for number in range(node.job.nodes) if number != node.job.node]
    codes = [node.status.read(name).get("exit_code") for name in others]
    while None in codes and time.monotonic() < until and not node.received:
        time.sleep(0.5)
        codes = [node.status.read(name).get("exit_code") for name in others]
    if any(code != 0 for code in codes):
        return False
    made = wandb_artifacts.expected(node.job.root)
    said = registration.register(made, registration.JobPlace(node.job.root, node.keys))
    for line in said:
        say(line)
    return not said


def _wait_for_others(node: "NodeRun") -> None:
    """Waits for the records and last lines of the others, which the platform would end with this task.

    They see that it has failed, and end within 40 s (`watch.py`).
    """
    until = time.monotonic() + _OTHERS_S
    while time.monotonic() < until:
        there = set(node.barriers.folder.names())
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
