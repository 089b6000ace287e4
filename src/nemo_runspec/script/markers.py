"""The exit markers a job script leaves, read back and said in words. One file of `key=value` lines per node.

They are one of several witnesses: who decides a job's state and exit code is docs/architecture.md, "Who decides".
"""

from __future__ import annotations

import json
import math
import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nemo_runspec.lines import text_lines
from nemo_runspec.regular import read_regular

_STOPPED = frozenset({128 + signal.SIGHUP, 128 + signal.SIGINT, 128 + signal.SIGTERM})
_ELSEWHERE = re.compile(r"node (\d{1,9})\b")
"""How the reason begins of a node that ended because of another one, in markers without `blames`."""

REASONS: Mapping[str, str] = {
    "stall": r"no progress for ",
    "health": r"health check: bad node \S+: ",
    "restarts": r".*max_restarts = \d+ is reached",
    "setup_lines": r"setup_lines ",
    "python": r"the node has no python3",
    "pre_launch": r"a command of pre_launch_commands",
    "image": r"(?:inputs: |outputs: )?the image has no ",
    "outputs": r"outputs: ",
    "inputs": r"inputs: ",
    "artifact": r"(?:input|output) '",
    "ray_node": r"Ray lost node|Ray ended on node|node .* did not join Ray",
    "ray": r"Ray",
    "registration": r"produced, not registered: ",
    "files": r".*(?:arrive whole|downloaded|package|unpack|digest|all nodes see it|\b(?:mkdir|mv|tar) failed)",
}
"""The codes with which our scripts say why they failed; and how the reason begins in markers that have no code."""

IN_WORDS = "?"
"""The code of a marker of an earlier release, which says it in words alone."""

_DIGITS = re.compile(r"[0-9]{1,15}")
_MOST = 10**15
_MOST_BYTES = 1 << 20
"""Bytes of a marker; a real one has some hundred."""


@dataclass(frozen=True, slots=True)
class NodeMarker:
    """How a job ended on one node: by the job script's marker, or by its pod's last line (`pod_marker`).

    Args:
        node: its number, from 0.
        host: the machine's name, or the pod's where a platform does not tell it.
        phase: `start`, `setup` or `command`: how far it came.
        exit_code: its exit status.
        signal: the number of the signal that ended the command, None where none did or
            it is not known: a status of 128 + N alone does not say so.
        rank: the rank that failed first, None where none did or it is not known.
        oom: True where the kernel killed a process of this control group for want of memory meanwhile.
        received: the signal the script itself was sent, such as `TERM`; empty for none.
        attempt: how often the job had been started before, from 0; None in markers of older scripts.
        reason: in words, where the script knows more than an exit code.
        reason_code: the same as a code (`REASONS`),
            '' for none.
        blames: the node whose failure ended this one, None where it ended by itself, or says so in
            words alone.
        detail: `bare_reason`, '' where the reason is none but this.
        started, ended: seconds since 1970.
        lines, size: how many lines and bytes its ranks have given to the log, which may have had no room for them.
    """

    node: int
    exit_code: int
    phase: str = "command"
    host: str = ""
    signal: int | None = None
    rank: int | None = None
    oom: bool = False
    received: str = ""
    attempt: int | None = None
    reason: str = ""
    started: float = 0.0
    ended: float = 0.0
    lines: int = 0
    size: int = 0
    reason_code: str = IN_WORDS
    blames: int | None = None
    detail: str = ""

    def __post_init__(self) -> None:
        if self.reason_code == IN_WORDS:
            object.__setattr__(self, "reason_code", reason_code_in(self.reason))

    @property
    def bare_reason(self) -> str:
        """The reason without what its code and its host say already; in markers of an earlier release, by its words."""
        if self.detail or self.reason_code != "health":
            return self.detail or self.reason
        return re.sub(REASONS["health"], "", self.reason, count=1)


@dataclass(frozen=True, slots=True)
class MarkedEnd:
    """How a job ended by the word of its nodes alone. `exit_code`, `signal`, `cause`: as of the one that decides."""

    exit_code: int
    signal: int | None = None
    cause: str = ""


NOT_RUN = MarkedEnd(1, cause="the job script ended without running the command")
"""Of a job that would be a success, if its command had run on all nodes: `exec` in a startup command, say."""


def parse_marker(text: str) -> NodeMarker | None:
    """A marker's text read; None where it is not whole."""
    if text.startswith("{"):
        return _from_json(text)
    values = dict(line.split("=", 1) for line in text_lines(text) if "=" in line)
    try:
        return NodeMarker(
            node=whole_number(values["node"], 10**6),
            exit_code=whole_number(values["exit_code"], 255),
            phase=values["phase"],
            host=values["host"],
            signal=_number(values["signal"]),
            rank=_number(values["rank"]),
            oom=values["oom"] == "1",
            received=values["received"],
            attempt=_attempt(values.get("attempt", "")),
            reason=values["reason"],
            started=finite(values["started"]),
            ended=finite(values["ended"]),
            lines=whole_number(values.get("lines") or "0", _MOST),
            size=whole_number(values.get("size") or "0", _MOST),
            reason_code=values.get("reason_code", IN_WORDS),
            blames=_number(values.get("blames", "")),
        )
    except (KeyError, ValueError):
        return None


def _from_json(text: str) -> NodeMarker | None:
    """A node's record, as `jobside/finish.py` writes it."""
    try:
        values = json.loads(text)
        return NodeMarker(
            node=_whole(values["node"], 10**6),
            exit_code=_whole(values["exit_code"], 255),
            phase=str(values["phase"]),
            host=str(values["host"]),
            signal=_whole_or_none(values.get("signal")),
            rank=_whole_or_none(values.get("rank")),
            oom=values.get("oom") is True,
            received=str(values.get("received", "")),
            attempt=_whole_or_none(values.get("attempt")),
            reason=str(values["reason"]),
            started=finite(values["started"]),
            ended=finite(values["ended"]),
            lines=_whole(values.get("lines", 0), _MOST),
            size=_whole(values.get("size", 0), _MOST),
            reason_code=str(values.get("reason_code", "")),
            blames=_whole_or_none(values.get("blames")),
            detail=str(values.get("detail", "")),
        )
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def _whole_or_none(value: object) -> int | None:
    return None if value is None else _whole(value, 10**6)


def _whole(value: object, most: int) -> int:
    """Raises `ValueError` for what is no such number."""
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(value)
    return value


def read_markers(status: Path) -> tuple[NodeMarker, ...]:
    """The whole markers of a job's status folder, in the order of their nodes; empty where there is none."""
    markers = (parse_marker(_text(file)) for file in sorted(status.glob("node-*")) if file.suffix != ".tmp")
    return tuple(sorted((m for m in markers if m is not None), key=lambda m: (m.node, m.ended)))


def deciding_marker(ends: Iterable[NodeMarker]) -> NodeMarker | None:
    """The node's end that says how a job ended, on every backend; None for no end.

    Of the last attempt: a node that failed by itself, before one that ended because another had failed, before one that
    was told to stop, before any success; of several, the first by time, then by number.
    """
    found = list(ends)
    last = max((end.attempt or 0 for end in found), default=0)
    return min((end for end in found if (end.attempt or 0) == last), key=_rank, default=None)


def first_failure(ends: Iterable[NodeMarker]) -> NodeMarker | None:
    """The node's end that a failed job failed by; None where none has failed."""
    first = deciding_marker(ends)
    return first if first is not None and first.exit_code else None


def marked_end(markers: Iterable[NodeMarker], nodes: int = 1) -> MarkedEnd:
    """How a job ended of which nothing else says that it failed: a node's failure is the job's, and so is `NOT_RUN`."""
    found = tuple(markers)
    first = first_failure(found)
    if first is not None:
        return MarkedEnd(first.exit_code, first.signal, cause(first))
    return MarkedEnd(0) if command_ran(found, nodes) else NOT_RUN


def contradicts(markers: Iterable[NodeMarker], nodes: int) -> bool:
    """True where all nodes say that they ended well, which is no word about a job that its platform calls failed."""
    found = tuple(markers)
    there = {marker.node for marker in found}
    return nodes > 0 and there.issuperset(range(nodes)) and not any(marker.exit_code for marker in found)


def contradiction(platform: str) -> str:
    """That, in words."""
    return f"{platform} says that it failed, but its program ended with exit code 0 by its own last word"


def reason_code_in(reason: str) -> str:
    """The code of a reason that has none beside it, '' for none."""
    return next((code for code, words in REASONS.items() if re.match(words, reason)), "")


def _rank(end: NodeMarker) -> tuple[bool, bool, bool, float, int, int]:
    in_words = _ELSEWHERE.match(end.reason)
    blamed = int(in_words[1]) if end.blames is None and in_words else end.blames
    follows = blamed not in (None, end.node)
    was_stopped = bool(end.received) and end.exit_code in _STOPPED
    return (end.exit_code == 0, was_stopped, follows, end.ended, end.node, end.exit_code)


def command_ran(markers: Iterable[NodeMarker], nodes: int = 1) -> bool:
    """True where the markers of all `nodes` say that the command ran there to its end, whatever its exit status.

    A job script that ended with status 0 without this did not run the command: `exec` in a startup command leaves no
    marker at all.
    """
    return len({marker.node for marker in markers if marker.phase == "command"}) >= nodes


def cause(marker: NodeMarker) -> str:
    """Why it ended as it did, in words; empty for a success."""
    if marker.exit_code == 0:
        return ""
    killed = "; the kernel killed a process of this job: out of memory" if marker.oom else ""
    if marker.reason:
        return f"{marker.reason}, exit code {marker.exit_code}{killed}"
    who = "the command" if marker.rank is None else f"rank {marker.rank}"
    if marker.oom and (marker.signal == signal.SIGKILL or marker.exit_code == 128 + signal.SIGKILL):
        return f"{who} was killed by the kernel: out of memory"
    said = f"{who} was killed by signal {signal_name(marker.signal)}" if marker.signal else _exited(marker)
    return f"{said}{killed}"


def with_loss(why: str, lines: int) -> str:
    """Why a job ended as it did, with how many lines of its output are in no log."""
    lost = f"{lines:,} lines of its output could not be written: is the disk full?" if lines > 0 else ""
    return "; ".join(filter(None, (why, lost)))


def signal_name(number: int) -> str:
    """`9 (SIGKILL)`, or the number alone where it has no name here."""
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)


def _exited(marker: NodeMarker) -> str:
    ended = "" if marker.rank is None else f"rank {marker.rank} ended with "
    return f"{ended}exit code {marker.exit_code}{_as_after(marker.exit_code)}"


def _as_after(exit_code: int) -> str:
    """What shells mean by such a status; a program may as well have chosen it itself."""
    try:
        return f" (as after signal {exit_code - 128}, {signal.Signals(exit_code - 128).name})"
    except ValueError:
        return ""


def _number(text: str) -> int | None:
    return whole_number(text, 10**6) if text else None


def whole_number(text: str, most: int) -> int:
    """Raises `ValueError` for what is none, as of a file that was damaged."""
    if not _DIGITS.fullmatch(text) or int(text) > most:
        raise ValueError(text)
    return int(text)


def _attempt(text: str) -> int | None:
    """Raises `ValueError` for what is neither empty nor a number."""
    return int(text) if text else None


def finite(text: str | float) -> float:
    """Seconds since 1970, 0 for what no clock says; raises `ValueError` for what is no number."""
    time = float(text)
    return time if math.isfinite(time) else 0.0


def _text(file: Path) -> str:
    try:
        return read_regular(file, most=_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
