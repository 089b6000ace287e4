"""Finds out what became of a job whose supervisor died without a word: its exit marker, then its backend, decide."""

from __future__ import annotations

import dataclasses
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_runspec.errors import UserError
from nemo_runspec.lines import text_lines
from nemo_runspec.records.process import Life, is_alive, life_of
from nemo_runspec.records.record import STATES, JobRecord, Transition, moment, now

if TYPE_CHECKING:
    from nemo_runspec.backends.base import Backend
    from nemo_runspec.script.markers import NodeMarker

_WITHOUT_MARKER = "nemotron was killed, and the job left no exit marker"

_WHILE_SUBMITTING = "nemotron ended while it submitted the job; whether it did"

LocalState = tuple[str, str, int | None, bool]
"""State, reason and exit code of a job, as its backend finds them; True where it is lost by one answer alone."""


def is_believed(record: JobRecord) -> bool:
    """True where the record says all there is: the job is over, or whoever watches over it still does."""
    if record.over or record.submitted or record.launcher is None:
        return True
    return life_of(record.launcher, record.host) is Life.ALIVE


def seen_now(record: JobRecord, folder: Path) -> JobRecord:
    """The record of an unfinished job with what is found of it now. Nothing is written: `facts` that differ are to be.

    A supervisor on another machine or in another container: `unknown`. Else an exit marker says how the job ended.
    Without one it is `lost` after a restart of the machine, and what its backend finds in any other case.
    """
    if is_believed(record) or record.launcher is None:
        return record
    if record.handle:
        return _with(record, "unknown", f"{_WHILE_SUBMITTING}, nemotron jobs status {record.name} finds out")
    life = life_of(record.launcher, record.host)
    if life is Life.OTHER_MACHINE:
        return _with(record, "unknown", f"it was started on {record.host}, which cannot be asked from here")
    if life is Life.OTHER_CONTAINER:
        return _with(record, "unknown", f"it was started in another container of this machine ({record.host})")
    marker = _marker_in(folder)
    if marker is not None:
        return _as_marked(record, marker, folder)
    if life is Life.RESTARTED:
        return _with(record, "lost", f"the machine was restarted, and the job had left no exit marker ({record.host})")
    state, reason, exit_code, absent = _look(record, folder)
    marker = _marker_in(folder) if absent or STATES[state].final else None
    if marker is not None:  # it has ended since the first look for one
        return _as_marked(record, marker, folder)
    if absent:
        return _absent(record, reason)
    why = reason if STATES[state].final else ""
    facts = record.facts if state == "unknown" else dataclasses.replace(record.facts, absent=None)
    return _with(dataclasses.replace(record, exit_code=exit_code, cause=why, facts=facts), state, reason)


def _marker_in(folder: Path) -> NodeMarker | None:
    from nemo_runspec.script.markers import deciding_marker, read_markers

    return deciding_marker(read_markers(folder / "status"))


def _absent(record: JobRecord, reason: str) -> JobRecord:
    """A job whose engine says that it is not there: believed as of any platform (`remote.absence`)."""
    from nemo_runspec.records.absence import BELIEVED, counted, is_believed

    looks = counted(record.facts.absent, time.time(), stop=False)
    seen = dataclasses.replace(record, facts=dataclasses.replace(record.facts, absent=looks))
    return _with(seen, "lost", reason) if is_believed(looks) else _with(seen, "unknown", f"{reason}; {BELIEVED}")


def _as_marked(record: JobRecord, marker: NodeMarker, folder: Path) -> JobRecord:
    from nemo_runspec.records.cancel_request import read_request
    from nemo_runspec.script.image_made import image_in
    from nemo_runspec.script.markers import marked_end
    from nemo_runspec.script.wandb_run import run_in

    end = marked_end([marker])
    elapsed = marker.ended - marker.started
    began = record.running_since
    # By the clock of the record: the job's own may be another machine's.
    ended = began.timestamp() + max(0.0, elapsed) if began and math.isfinite(elapsed) else marker.ended
    known = dataclasses.replace(
        record,
        exit_code=end.exit_code,
        signal=end.signal,
        cause=end.cause,
        elapsed=elapsed if math.isfinite(elapsed) else None,
        wandb={**record.wandb, **run_in(folder)},
        image=image_in(folder),
    )
    reason = "; ".join(filter(None, (end.cause, "nemotron itself was killed before the job's end")))
    request = read_request(folder) if marker.received else None
    if request is not None:
        return _with(dataclasses.replace(known, cause=f"cancelled by {request.by}"), "cancelled", "")
    if marker.received and record.container is None:  # the kernel tells the job of a dead supervisor by a signal
        return _with(
            known, "lost", f"nemotron itself was killed, and the job was stopped with it (SIG{marker.received})"
        )
    return _with(known, "succeeded" if end.exit_code == 0 else "failed", reason, moment(ended))


def complete(record: JobRecord, seen: JobRecord, folder: Path) -> tuple[JobRecord, bool]:
    """Before a job's end is written down, its backend completes its log. What stands in the way is told in the reason.

    Args:
        record: as it is written.
        seen: with how the job ended.

    Returns: the record to be written, not over where something of the job still runs; and whether `tidy` may follow.
    """
    try:
        backend = _watched_from_here(seen)
        if backend is None or backend.load_worker().settle(seen, folder):
            return seen, backend is not None
    except Exception as error:  # noqa: BLE001  # it is reported, and must not hide how the job ended
        return _and_said(seen, f"its log may lack its end: {_words(error)}"), False
    return _with(
        record, "running", "its supervisor is gone; its job script has ended, and its log is not yet complete"
    ), False


def tidy(seen: JobRecord, folder: Path) -> JobRecord:
    """After it was written down: removes what is left of the job. What stands in the way is told in the reason."""
    try:
        backend = _watched_from_here(seen)
        if backend is not None:
            backend.load_worker().clear(seen, folder)
    except Exception as error:  # noqa: BLE001  # as above
        return _and_said(seen, _words(error))
    return seen


def _watched_from_here(record: JobRecord) -> Backend | None:
    """The job's backend, where its jobs run on this machine."""
    from nemo_runspec.backends import get_backend

    backend = get_backend(record.executor)
    return backend if backend.worker else None


def _and_said(record: JobRecord, words: str) -> JobRecord:
    last = record.states[-1]
    reason = "; ".join(filter(None, (last.reason or record.cause, words)))
    return dataclasses.replace(record, states=(*record.states[:-1], dataclasses.replace(last, reason=reason)))


def _words(error: Exception) -> str:
    words = error.what if isinstance(error, UserError) else str(error)
    return text_lines(words or type(error).__name__)[0]


def _look(record: JobRecord, folder: Path) -> LocalState:
    """What the job's backend finds. Whatever stands in its way makes the state unknown, and is the reason."""
    from nemo_runspec.backends import get_backend

    try:
        backend = get_backend(record.executor)
        if not backend.worker:
            return _without_worker(record, backend.remote)
        seen = backend.load_worker().status(record, folder)
    except Exception as error:  # noqa: BLE001  # it is reported, and one job must not hide all others
        return "unknown", f"nemotron was killed, and the job cannot be looked at: {_words(error)}", None, False
    if seen.state not in STATES:
        return "unknown", f"{record.executor} says '{seen.state}' of it", None, False
    return seen.state, seen.reason, seen.exit_code, seen.absent


def _without_worker(record: JobRecord, remote: bool) -> LocalState:
    if record.process is not None and is_alive(record.process):
        return "running", f"nemotron itself was killed; process {record.process.pid} still runs", None, False
    if remote:
        return "unknown", f"nemotron was killed, and {record.executor} cannot be asked from here", None, False
    return "lost", _WITHOUT_MARKER, None, False


def _with(record: JobRecord, state: str, reason: str, at: str | None = None) -> JobRecord:
    """The record in that state; one that it is in already goes on, with the reason."""
    last = record.states[-1]
    if last.state == state:
        return dataclasses.replace(record, states=(*record.states[:-1], dataclasses.replace(last, reason=reason)))
    return dataclasses.replace(record, states=(*record.states, Transition(state, at or now(), reason)))
