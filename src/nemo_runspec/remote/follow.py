"""Stays with a job of another machine until it is over: its state, its log, through lost connections and requeues."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from nemo_runspec.backends import get_backend
from nemo_runspec.errors import UserError
from nemo_runspec.jobs import JobRecord, JobStore
from nemo_runspec.jobs.follow import follow_to
from nemo_runspec.jobs.record import is_over
from nemo_runspec.remote.mirror import Mirror
from nemo_runspec.remote.provider import Seen
from nemo_runspec.remote.refresh import refresh

_FIRST, _GROWTH = 0.5, 1.5
_LOG_PAUSE, _QUEUE_PAUSE, _TROUBLE_PAUSE = 4.0, 20.0, 60.0
"""Seconds at most between two looks: at a log, at a waiting job, after a lost connection."""

_STATE_BUSY, _STATE_IDLE = 30.0, 30.0
"""Seconds at most between two questions about a running job's state, while its log grows and while it does not. They
are fewer at first after a change, as a job that fails does so soon, and none where its files say that it ends."""


class Watcher(Protocol):
    """Is told how it goes."""

    def seen(self, record: JobRecord, seen: Seen) -> None:
        """What the platform says now."""

    def trouble(self, text: str) -> None:
        """The platform cannot be asked."""

    def recovered(self) -> None:
        """It can be asked again."""

    def clear(self) -> None:
        """Log output follows."""


class Follower:
    """Follows one job. `run` may be interrupted at any point and called again.

    One that is lost is asked about first: it may be there.

    Args:
        write: takes new bytes of the log.
        tail: begin with that many lines of what there is now; with all of it where None.
    """

    def __init__(
        self,
        store: JobStore,
        record: JobRecord,
        watcher: Watcher,
        write: Callable[[bytes], object],
        *,
        tail: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.store = store
        self.record = record
        self.watcher = watcher
        provider = get_backend(record.executor).load_provider()
        self.mirror = Mirror(provider, record.handle, store.folder(record.name))
        self._write = write
        self._tail = tail
        self._sleep = sleep
        self._shown: int | None = None
        self._pause = self._patience = _FIRST
        self._looked = float("-inf")
        self._troubled = False

    def run(self) -> JobRecord:
        """The record of the job once it is over and all of its log has been written.

        Raises:
            UserError: the platform refuses to be asked, or does not answer about a job that was lost before. Else one
                that does not answer is asked again and again.
        """
        while True:
            try:
                if self._step():
                    return self.record
                self._went_well()
            except UserError as error:
                if not error.transient or (self._over() and self._looked < 0):
                    raise
                self._troubled = True
                self.watcher.trouble(error.what)
                self._wait(_TROUBLE_PAUSE)

    def _step(self) -> bool:
        """One look; True once there is nothing more."""
        moved = self._fetch() if self.record.state != "queued" else 0
        if moved:
            self._pause = _FIRST
        since = time.monotonic() - self._looked
        due = self.mirror.stirred or since >= (_STATE_BUSY if moved else self._patience)
        if due and (not self._over() or self._looked < 0):
            self._look()
        if self._over():
            self._fetch_rest()
            return True
        if not moved:
            self._wait(_QUEUE_PAUSE if self.record.state == "queued" else _LOG_PAUSE)
        return False

    def _over(self) -> bool:
        return is_over(self.record.state)

    def _look(self) -> None:
        before = self.record.state
        places = self.record.state in ("queued", "submitting")
        self.record, seen = refresh(self.store, [self.record], places=places)[0]
        self._looked = time.monotonic()
        self._patience = min(self._patience * _GROWTH, _STATE_IDLE)
        if self.record.state != before or self.mirror.stirred:
            self._pause = self._patience = _FIRST
        self.mirror.stirred = False
        if self.record.handle.get("id") != self.mirror.handle.get("id"):
            self.mirror.handle = self.record.handle
        if seen is not None:
            self.watcher.seen(self.record, seen)

    def _fetch(self) -> int:
        moved, _ = self.mirror.fetch()
        self._show()
        return moved

    def _fetch_rest(self) -> None:
        more = True
        while more:
            moved, more = self.mirror.fetch(last=True)
            more = more and moved > 0
            self._show()

    def _show(self) -> None:
        """Passes on what is here and has not been shown, whoever fetched it."""

        def write(data: bytes) -> None:
            self.watcher.clear()
            self._write(data)

        self._shown = follow_to(self.mirror.log, self._shown, write, tail=self._tail)

    def _went_well(self) -> None:
        if self._troubled:
            self._troubled = False
            self._pause = _FIRST
            self.watcher.recovered()

    def _wait(self, longest: float) -> None:
        self._sleep(min(self._pause, longest))
        self._pause = min(self._pause * _GROWTH, longest)
