"""The outcome of a job: from its status, its exit marker, and who asked it to stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nemo_runspec.records import JobRecord
from nemo_runspec.records.record import code_and_why
from nemo_runspec.records.unregistered import LATER, is_unregistered
from nemo_runspec.script.markers import NodeMarker, cause, marked_end, signal_name
from nemo_runspec.source import display_path


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Why a job was asked to stop. `words`: as in "cancelled by Ctrl-C"; `exit_code`: what nemotron exits with."""

    words: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended: its state, what nemotron exits with, and why."""

    state: str
    exit_code: int
    signal: int | None = None
    cause: str = ""


def outcome_of(status: int, marker: NodeMarker | None, asked: StopRequest | None = None, known: str = "") -> Outcome:
    """How the job ended.

    Args:
        status: the job script's own exit status, negative after a signal.
        marker: what the script left.
        known: a cause the backend knows better, such as a container that was removed.
    """
    if asked is not None:
        return Outcome("cancelled", asked.exit_code, cause=f"cancelled by {asked.words}")
    code = status if status >= 0 else 128 - status
    if known:
        return Outcome("failed", code or 1, -status if status < 0 else None, known)
    if status == 0:
        end = marked_end([] if marker is None else [marker])
        return Outcome("failed" if end.exit_code else "succeeded", end.exit_code, end.signal, end.cause)
    if marker is not None and marker.exit_code == code:
        return Outcome("failed", code, marker.signal, cause(marker))
    if status < 0:
        return Outcome("failed", code, -status, f"the job script was killed by signal {signal_name(-status)}")
    return Outcome("failed", code, cause=f"exit code {code}")


def closing_lines(record: JobRecord, log: Path, outputs: Mapping[str, str]) -> list[str]:
    """What is said when the job has ended."""
    took = f" after {record.elapsed:.1f} s" if record.elapsed is not None else ""
    lines = [f"{record.name}: {record.state}{took}{code_and_why(record.exit_code, record.why)}"]
    if log.exists() and record.state != "succeeded":
        lines.append(f"  log: {display_path(log)}")
    if is_unregistered(record):
        lines.append(f"  its work is done; once the store can be written: {LATER} {record.name}")
    return lines + [f"  {name}: {path}" for name, path in outputs.items()]
