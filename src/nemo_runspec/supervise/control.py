"""Ends a job of this machine from another process: its supervisor does it, or, where that is gone, this one."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from nemo_runspec.backends import get_backend
from nemo_runspec.console import Say
from nemo_runspec.errors import UserError
from nemo_runspec.polling import Backoff, TimeLimit
from nemo_runspec.processes import user_name
from nemo_runspec.records import JobEnded, JobRecord, JobStore
from nemo_runspec.records.cancel_request import MARGIN, CancelRequest, read_request, write_request
from nemo_runspec.records.process import is_alive
from nemo_runspec.records.settle import settled

_TICK = 0.1


def cancel(store: JobStore, record: JobRecord, *, grace: float, say: Say, by: str = "") -> JobRecord:
    """Ends a job: TERM to all of it, `grace` seconds, KILL. A job that has ended is left as it is.

    Args:
        say: takes lines of nemotron's own.
        by: who wants it ended.

    Returns: the record as it is then.

    Raises:
        UserError: the job belongs to another machine, boot or container; or it could not be ended.
    """
    if record.ended:
        return record
    folder = store.folder(record.name)
    supervised = is_alive(record.launcher) if record.launcher else False
    if supervised is None:
        raise UserError(
            f"job '{record.name}' was started on {record.host}, which this process cannot reach",
            remedy=f"on {record.host}: nemotron jobs cancel {record.name}",
        )
    before = read_request(folder)  # its sweep may have been told already, and it with it
    announced = _has_its_own(record) if before is None else before.announced
    wish = CancelRequest(grace, by or f"nemotron jobs cancel ({user_name()})", announced)
    write_request(folder, wish)
    if supervised:
        _wake_supervisor(record)
        ended = _wait(store, record.name, grace + MARGIN)
        if ended is not None:
            return ended
        say(f"{record.name}: its supervisor does not answer; ending the job without it")
    left = get_backend(record.executor).load_worker().end(record, folder, grace)
    if left:
        say(f"{record.name}: {left}")
    return _conclude(store, record.name, "which did not answer" if supervised else "which was gone")


def _has_its_own(record: JobRecord) -> bool:
    """True if its supervisor has no other jobs, as that of a sweep has."""
    return record.group is None


def _wake_supervisor(record: JobRecord) -> None:
    """TERM, so that it stops even while it makes an environment. A sweep's process looks for the wish itself."""
    if record.launcher is not None and _has_its_own(record):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(record.launcher.pid, signal.SIGTERM)


def _wait(store: JobStore, name: str, seconds: float) -> JobRecord | None:
    """The record once the job has ended or its supervisor is gone; None after that many seconds."""
    limit, pauses = TimeLimit(seconds), Backoff(_TICK, _TICK)
    while not limit.passed:
        record = settled(store, name)
        if record.ended or record.state == "lost":
            return record if record.ended else None
        pauses.wait()
    return None


def _conclude(store: JobStore, name: str, supervisor: str) -> JobRecord:
    """Writes down that the job was cancelled, unless it has ended otherwise meanwhile."""
    record = settled(store, name)
    if record.ended:
        return record
    try:
        return store.finish(record, "cancelled", exit_code=143, cause=f"cancelled without its supervisor, {supervisor}")
    except JobEnded as error:
        return error.record
