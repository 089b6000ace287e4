"""Jobs of this machine that are lost, looked at again: a container may go on under an engine that was away."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from nemo_runspec.errors import UserError
from nemo_runspec.records.process import Life, life_of
from nemo_runspec.records.transitions import JobEnded

if TYPE_CHECKING:
    from nemo_runspec.records.record import JobRecord
    from nemo_runspec.records.store import JobStore


def refresh_lost(store: JobStore, record: JobRecord) -> JobRecord:
    """A job as it is now, if it is one of this machine and lost; any other as it is given.

    Raises:
        UserError: its container's engine does not answer, or it belongs to another machine.
    """
    from nemo_runspec.backends import get_backend

    backend = get_backend(record.executor)
    if record.state != "lost" or record.handle or not backend.worker:
        return record
    life = Life.DEAD if record.launcher is None else life_of(record.launcher, record.host)
    if life in (Life.OTHER_MACHINE, Life.OTHER_CONTAINER):
        raise _not_asked(record, f"it was started on {record.host}")
    seen = backend.load_worker().status(record, store.folder(record.name))
    if seen.state == "unknown":
        raise _not_asked(record, seen.reason)
    if seen.state == "lost":
        return record
    with suppress(JobEnded):
        if seen.state == "running":
            return store.saw(record, "running", seen.reason)
        return store.finish(record, seen.state, exit_code=seen.exit_code, cause=seen.reason)
    return store.by_name(record.name)


def _not_asked(record: JobRecord, why: str) -> UserError:
    return UserError(
        f"job '{record.name}' is lost, and whether it is gone cannot be asked now: {why}", remedy="try again later"
    )
