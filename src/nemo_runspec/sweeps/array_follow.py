"""Stays with runs of a sweep that are elsewhere: one question per machine for all of them, and their metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from nemo_runspec import paths
from nemo_runspec.backends import get_backend
from nemo_runspec.backends.capabilities import SubmitsArrays
from nemo_runspec.errors import UserError, first_line
from nemo_runspec.polling import Backoff, TimeLimit
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.remote.cancel import stop_all
from nemo_runspec.remote.log_mirror import Mirror
from nemo_runspec.remote.refresh import refresh
from nemo_runspec.sweeps.model import Member
from nemo_runspec.sweeps.run import SweepWatcher

_FIRST, _LONGEST, _GROWTH = 1.0, 20.0, 1.4
"""Seconds between two looks: after something has changed, at most, and what they grow by."""

_TICK = 0.1
_METRICS = 16 << 20
"""Bytes of metrics that are fetched at a time."""

_LOGS = 5
"""Runs that failed whose logs are fetched at the end."""


class ArrayFollower:
    """Follows the members of a sweep. `run` may be interrupted at any point and called again.

    Args:
        members: with their records.
        ends_all: one that fails ends the others, should the platform not have done it.
        trouble: takes what keeps a machine from being asked.
    """

    def __init__(
        self,
        store: JobStore,
        members: Iterable[Member],
        watcher: SweepWatcher,
        *,
        ends_all: bool = False,
        trouble: Callable[[str], None] = lambda text: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.members = {member.name: member for member in members}
        self._store = store
        self._watcher = watcher
        self._ends_all = ends_all
        self._trouble = trouble
        self._sleep = sleep
        self._pauses = Backoff(_FIRST, _LONGEST, _GROWTH)
        self._started: set[str] = set()
        self._ended: set[str] = set()

    def run(self) -> list[Member]:
        """The members once all are over.

        Raises:
            UserError: the platform refuses to be asked. One that does not answer is asked again and again.
        """
        while True:
            if self.look():
                self._pauses.reset()
            if all(record.over for record in self._records()):
                return list(self.members.values())
            self._wait(self._pauses.pause())

    def look(self) -> bool:
        """Asks once; True where something has changed. Raises `UserError` where asking again would not help."""
        open_ones = [record for record in self._records() if not record.over]
        try:
            changed = [self._note(record) for record, _ in refresh(self._store, open_ones)]
        except UserError as error:
            if not error.transient:
                raise
            self._trouble(first_line(error))
            return False
        fetch_metrics(self._store, [record for record in self._records() if record.name in self._started])
        self._tell()
        if self._ends_all and any(record.state == "failed" for record in self._records()):
            self._end_others()
        return any(changed)

    def _records(self) -> list[JobRecord]:
        return [member.record for member in self.members.values() if member.record is not None]

    def _note(self, record: JobRecord) -> bool:
        before = self.members[record.name]
        self.members[record.name] = replace(before, record=record)
        return before.record is None or before.record.state != record.state

    def _tell(self) -> None:
        for member in self.members.values():
            if member.name not in self._started and member.state in ("running", "starting"):
                self._started.add(member.name)
                self._watcher.started(member)
            if member.name not in self._ended and member.record is not None and member.record.over:
                self._ended.add(member.name)
                self._started.discard(member.name)
                self._watcher.ended(member)

    def _end_others(self) -> None:
        failed = min(member.index for member in self.members.values() if member.state == "failed")
        left = [record for record in self._records() if not record.over and record.submitted]
        try:
            stop_all(left, f"the sweep, as run {failed} has failed", hard=False)
            self._ends_all = False
        except UserError as error:
            self._trouble(first_line(error))

    def _wait(self, seconds: float) -> None:
        limit = TimeLimit(seconds)
        while left := limit.left:
            self._watcher.tick()
            self._sleep(min(_TICK, left))


def fetch_metrics(
    store: JobStore, records: Sequence[JobRecord], trouble: Callable[[UserError | OSError], object] = lambda error: None
) -> None:
    """Brings what is new of the jobs' metrics into their folders here. One round trip per machine, more for much.

    Args:
        trouble: takes what keeps them from being fetched, once for each machine; they are fetched next time.
    """
    groups: dict[tuple[str, str], list[JobRecord]] = {}
    for record in records:
        if record.submitted:
            provider = get_backend(record.executor).load_provider()
            groups.setdefault((record.executor, provider.endpoint(record.handle)), []).append(record)
    for (executor, _), some in groups.items():
        provider = get_backend(executor).load_provider()
        if not isinstance(provider, SubmitsArrays):
            continue
        try:
            while _fetched(store, provider, some) >= _METRICS:
                pass
        except (UserError, OSError) as error:
            trouble(error)


def fetch_failed_logs(store: JobStore, records: Iterable[JobRecord]) -> None:
    """Brings the logs of the first few runs that failed here, so that the sweep's end can name them."""
    failed = [record for record in records if record.state == "failed" and record.submitted]
    for record in failed[:_LOGS]:
        mirror = Mirror(get_backend(record.executor).load_provider(), record.handle, store.folder(record.name))
        with suppress(UserError, OSError):
            mirror.fetch(last=True)


def _fetched(store: JobStore, provider: SubmitsArrays, records: Sequence[JobRecord]) -> int:
    """How many bytes have come."""
    files = [store.folder(record.name) / "metrics.jsonl" for record in records]
    sizes = [file.stat().st_size if file.exists() else 0 for file in files]
    came = 0
    for number, piece in provider.read_metrics([record.handle for record in records], sizes, _METRICS):
        paths.private_dir(files[number].parent)
        with files[number].open("ab") as file:
            file.truncate(piece.start)
            file.write(piece.content)
        came += len(piece.content)
    return came
