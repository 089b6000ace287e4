"""A sweep from another process: whether it goes on, its end, and its removal."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from nemo_runspec.errors import UserError
from nemo_runspec.polling import Backoff, TimeLimit
from nemo_runspec.records.cancel_request import CancelRequest, write_request
from nemo_runspec.records.process import Life, is_alive, life_of
from nemo_runspec.sweeps.model import Sweep
from nemo_runspec.sweeps.status import status_of
from nemo_runspec.sweeps.store import SweepStore

_TICK = 0.1


def goes_on(sweep: Sweep) -> bool:
    """True if it may still start members: it has not ended, and its process lives or cannot be seen from here."""
    if sweep.unattended:
        return sweep.launcher is not None and life_of(sweep.launcher, sweep.host) is Life.ALIVE
    return not status_of(sweep).over


def stop(store: SweepStore, group: str, request: CancelRequest, members: Iterable[Path] = ()) -> None:
    """Tells a sweep's process to end its running members and to start no more. One that is over is left as it is.

    Args:
        request: who wants that, which the sweep then says of its end.
        members: the folders of the jobs that may run in its process. They have the request before it has the signal,
            which they hear too: it must not be a second one to them.

    Raises:
        UserError: it runs on another machine or in another container.
    """
    sweep = store.read(group)
    if not goes_on(sweep) or sweep.launcher is None:
        return
    if is_alive(sweep.launcher) is None:
        raise UserError(
            f"{sweep.kind} '{sweep.group}' runs on another machine or in another container",
            remedy=f"there: nemotron jobs cancel {sweep.group}",
        )
    for folder in (*members, store.folder(group)):
        with suppress(OSError):  # it is a matter of words; the signal counts
            write_request(folder, replace(request, announced=True))
    with suppress(ProcessLookupError, PermissionError):
        os.kill(sweep.launcher.pid, signal.SIGTERM)


def wait_for_end(store: SweepStore, groups: Iterable[str], seconds: float | None = None) -> bool:
    """Waits until sweeps are over; False when the time is up before.

    Raises:
        UserError: one was removed meanwhile, or cannot be read.
    """
    limit, pauses = TimeLimit(seconds), Backoff(_TICK, _TICK)
    for group in groups:
        while goes_on(store.read(group)):
            if limit.passed:
                return False
            pauses.wait()
    return True


def refuse_running(store: SweepStore, group: str, *, force: bool = False) -> None:
    """Raises `UserError` for a sweep that goes on; unless forced, also for one that is not known or cannot be read."""
    try:
        sweep = store.read(group)
    except UserError:
        if force:
            return
        raise
    status = status_of(sweep)
    if status.over or (force and status.state == "unknown"):
        return
    if status.state == "unknown":
        raise UserError(
            f"whether {sweep.kind} '{group}' is over is not known: {status.reason}",
            remedy=f"if it is: nemotron jobs rm --force {group}",
        )
    raise UserError(
        f"{sweep.kind} '{group}' is not over; nothing was removed", remedy=f"end it first: nemotron jobs cancel {group}"
    )


def remove(store: SweepStore, group: str, *, force: bool = False) -> None:
    """Removes what is kept of a sweep that is over: its table and its picture. Its jobs are not touched.

    Raises:
        UserError: it goes on.
        OSError: it cannot be removed.
    """
    refuse_running(store, group, force=force)
    folder = store.folder(group)
    if not folder.is_symlink():
        shutil.rmtree(folder)
