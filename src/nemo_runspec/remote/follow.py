"""Stays with a job of another machine until it is over: its state, its log, through lost connections and requeues."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Protocol

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.capabilities import KeepsJobs
from nemo_runspec.backends.provider import handle_id
from nemo_runspec.errors import UserError
from nemo_runspec.polling import Backoff, tried
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.drawn import StateFile
from nemo_runspec.records.follow import follow_to
from nemo_runspec.records.log_view import LogView
from nemo_runspec.records.record import is_over
from nemo_runspec.records.status import JobStatus
from nemo_runspec.remote.log_mirror import Mirror
from nemo_runspec.remote.refresh import refresh

_FIRST, _GROWTH = 0.5, 1.5
_LOG_PAUSE, _QUEUE_PAUSE, _TROUBLE_PAUSE = 4.0, 20.0, 60.0
"""Seconds at most between two looks: at a log, at a waiting job, after a lost connection."""

_STATE_BUSY, _STATE_IDLE = 30.0, 30.0
"""Seconds at most between two questions about a running job's state, while its log grows and while it does not. They
are fewer at first after a change, as a job that fails does so soon, and none where its files say that it ends."""

_REST = (1.0, 3.0)
"""Seconds before each further try to fetch the rest of a log."""


class Watcher(Protocol):
    """Is told how it goes."""

    def seen(self, record: JobRecord, seen: JobStatus) -> None:
        """What the platform says now."""

    def trouble(self, text: str) -> None:
        """The platform cannot be asked."""

    def recovered(self) -> None:
        """Reports that the platform answers again."""

    def clear(self) -> None:
        """Log output follows."""


class SilentWatcher:
    """Tells nobody."""

    def seen(self, record: JobRecord, seen: JobStatus) -> None:
        """What the platform says now."""

    def trouble(self, text: str) -> None:
        """The platform cannot be asked."""

    def recovered(self) -> None:
        """Reports that the platform answers again."""

    def clear(self) -> None:
        """Nothing is drawn in place."""


class Follower:
    """Follows one job. `run` may be interrupted at any point and called again.

    One that is lost is asked about first: it may be there.

    Args:
        view: takes what is new of the log.
        tail: begin with that many lines of what there is now; with all of it where None.
    """

    def __init__(
        self,
        store: JobStore,
        record: JobRecord,
        watcher: Watcher,
        view: LogView,
        *,
        tail: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.store = store
        self.record = record
        self.watcher = watcher
        provider = get_backend(record.executor).load_provider()
        self.mirror = Mirror(provider, record.handle, store.folder(record.name))
        self.view = view
        self._states = StateFile(self.mirror.log)
        self._tail = tail
        self._sleep = sleep
        self._shown: int | None = None
        self._pauses, self._patience = Backoff(_FIRST, _TROUBLE_PAUSE, _GROWTH, sleep), _FIRST
        self._looked = float("-inf")
        self._troubled = self._unread = False

    def run(self) -> JobRecord:
        """The record of the job once it is over and all of its log has been written.

        Raises:
            UserError: the platform refuses to be asked, or does not answer about a job that was lost before. Else one
                that does not answer is asked again and again.
        """
        try:
            for _ in self.steps():
                pass
        finally:
            self.view.clear()
        return self.record

    def steps(self) -> Iterator[None]:
        """As `run`, handing over between two looks; the pause between them comes after that."""
        pause: float | None = 0.0
        while pause is not None:
            try:
                pause = self._step()
                if pause is not None and not self._unread:
                    self._went_well()
            except UserError as error:
                if not error.transient or (self._over() and self._looked < 0):
                    raise
                self._troubled = True
                self._aside().trouble(error.what)
                pause = _TROUBLE_PAUSE
            yield
            if pause:
                self._wait(pause)

    def _step(self) -> float | None:
        """One look. Returns: seconds to wait at most before the next, None once there is nothing more."""
        moved, problem = self._fetched() if self.record.state != "queued" else (0, None)
        if moved:
            self._pauses.reset()
        since = time.monotonic() - self._looked
        due = self.mirror.stirred or since >= (_STATE_BUSY if moved else self._patience)
        if (due or problem) and (not self._over() or self._looked < 0):
            self._look()
        if self._over():
            self._fetch_rest()
            self._read_again()
            return None
        self._say_unread(problem)
        if moved:
            return 0.0
        return _TROUBLE_PAUSE if problem else _QUEUE_PAUSE if self.record.state == "queued" else _LOG_PAUSE

    def _fetched(self) -> tuple[int, UserError | None]:
        """How much of the log is new, or what keeps it from being read: that hides nothing of how the job is."""
        try:
            return self._fetch(), None
        except UserError as error:
            return 0, error

    def _say_unread(self, problem: UserError | None) -> None:
        """Says that the log cannot be read, once the job itself could be asked about; and that it can again."""
        self._unread = problem is not None
        if problem is not None:
            self._troubled = True
            self._aside().trouble(f"its log cannot be read now: {problem.what}")

    def _over(self) -> bool:
        return is_over(self.record.state)

    def _look(self) -> None:
        before = self.record.state
        places = self.record.state in ("queued", "submitting")
        self.record, seen = refresh(self.store, [self.record], places=places)[0]
        self._looked = time.monotonic()
        self._patience = min(self._patience * _GROWTH, _STATE_IDLE)
        if self.record.state != before or self.mirror.stirred:
            self._pauses.reset()
            self._patience = _FIRST
        self.mirror.stirred = False
        if self.record.id != handle_id(self.mirror.handle):
            self.mirror.handle = self.record.handle
        if seen is not None:
            self._aside().seen(self.record, seen)
            self._draw()

    def _fetch(self) -> int:
        moved, _ = self.mirror.fetch()
        self._show()
        return moved

    def _fetch_rest(self) -> None:
        """The rest of the log of a job that is over. Where a cloud does not give it, that is said, and the end too."""
        may_pass = isinstance(self.mirror.provider, KeepsJobs)  # else files of a machine, which will answer again
        try:
            tried(self._fetch_last, _REST, lambda error: may_pass and isinstance(error, UserError), self._sleep)
        except UserError as error:
            if not may_pass:
                raise
            why = f"the rest of its log cannot be read ({error.what})"
            self._aside().trouble(f"{why}: nemotron jobs logs {self.record.name}")

    def _fetch_last(self) -> None:
        more = True
        while more:
            moved, more = self.mirror.fetch(last=True)
            more = more and moved > 0
            self._show()

    def _read_again(self) -> None:
        """An exit code that had not come yet may have come with the rest of the log."""
        if self.record.unread:
            [(self.record, _)] = refresh(self.store, [self.record], trouble=lambda *_: None)

    def _show(self) -> None:
        """Passes on what is here and has not been shown, whoever fetched it."""

        def write(data: bytes) -> None:
            self.watcher.clear()
            self.view.write(data)

        self._shown = follow_to(self.mirror.log, self._shown, write, tail=self._tail)
        self._draw()

    def _draw(self) -> None:
        """Shows the line that is not whole yet."""
        if state := self._states.read().shown:
            self.watcher.clear()
        self.view.draw(state)

    def _aside(self) -> Watcher:
        """Who is told how it goes, with nothing drawn in the way."""
        self.view.clear()
        return self.watcher

    def _went_well(self) -> None:
        if self._troubled:
            self._troubled = False
            self._pauses.reset()
            self._aside().recovered()

    def _wait(self, longest: float) -> None:
        self._sleep(self._pauses.pause(longest=longest))


def fetch_log(store: JobStore, record: JobRecord, trouble: Callable[[str], object] | None = None) -> JobRecord:
    """Fetches what is new of a job's log; its record as it is now.

    Args:
        trouble: takes what keeps the log from being fetched; what is here already stays as it is.

    Raises:
        UserError: there is no `trouble`, and the log cannot be fetched; not where all of it came at the job's end.
    """
    mirror = Mirror(get_backend(record.executor).load_provider(), record.handle, store.folder(record.name))
    try:
        record = refresh(store, [record])[0][0]
        mirror.handle = record.handle
        more = True
        while more:
            moved, more = mirror.fetch(last=record.over)
            more = more and moved > 0
    except UserError as error:
        if trouble is not None:
            trouble(error.what)
        elif not (record.ended and mirror.whole):
            raise
    return record
