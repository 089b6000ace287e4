"""The exit markers a job script leaves, read back and said in words. One file of `key=value` lines per node."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class NodeMarker:
    """How the job script ended on one node.

    Args:
        phase: `start`, `setup` or `command`: how far it came.
        exit_code: its exit status. `signal`: the number of the signal that ended the command, None where none did or
            it is not known: a status of 128 + N alone does not say so.
        rank: the rank that failed first, None where none did or it is not known.
        oom: True where the kernel killed a process of this control group for want of memory meanwhile.
        received: the signal the script itself was sent, such as `TERM`; empty for none.
        attempt: how often the platform had started the job before, from `0`; empty in markers of older scripts.
        reason: in words, where the script knows more than an exit code.
        started, ended: seconds since 1970.
    """

    node: int
    exit_code: int
    phase: str = "command"
    host: str = ""
    signal: int | None = None
    rank: int | None = None
    oom: bool = False
    received: str = ""
    attempt: str = ""
    reason: str = ""
    started: float = 0.0
    ended: float = 0.0


def parse_marker(text: str) -> NodeMarker | None:
    """A marker's text read; None where it is not whole."""
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    try:
        return NodeMarker(
            node=int(values["node"]),
            exit_code=int(values["exit_code"]),
            phase=values["phase"],
            host=values["host"],
            signal=_number(values["signal"]),
            rank=_number(values["rank"]),
            oom=values["oom"] == "1",
            received=values["received"],
            attempt=values.get("attempt", ""),
            reason=values["reason"],
            started=float(values["started"]),
            ended=float(values["ended"]),
        )
    except (KeyError, ValueError):
        return None


def read_markers(status: Path) -> tuple[NodeMarker, ...]:
    """The whole markers of a job's status folder, in the order of their nodes; empty where there is none."""
    markers = (parse_marker(_text(file)) for file in sorted(status.glob("node-*")) if file.suffix != ".tmp")
    return tuple(sorted((m for m in markers if m is not None), key=lambda m: (m.node, m.ended)))


def decisive(markers: Iterable[NodeMarker]) -> NodeMarker | None:
    """The marker that says how the job ended: the first failure by time, else any success, None for no marker."""
    found = sorted(markers, key=lambda m: (m.exit_code == 0, m.ended))
    return found[0] if found else None


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
    if marker.reason:
        return f"{marker.reason}, exit code {marker.exit_code}"
    who = "the command" if marker.rank is None else f"rank {marker.rank}"
    if marker.oom and (marker.signal == signal.SIGKILL or marker.exit_code == 128 + signal.SIGKILL):
        return f"{who} was killed by the kernel: out of memory"
    said = f"{who} was killed by signal {signal_name(marker.signal)}" if marker.signal else _exited(marker)
    return f"{said}; the kernel killed a process of this job: out of memory" if marker.oom else said


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
    return int(text) if text else None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
