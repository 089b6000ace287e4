"""The ranks of a node, as torchrun starts them: each has a supervisor of its own, which leaves a note here.

Under torchrun a signal is for the ranks, and not for torchrun: it would end its ranks 30 s later, or by USR1 itself.
"""

import time

from nemo_runspec.jobside import processes
from nemo_runspec.jobside.records import Folder
from nemo_runspec.jobside.signals import STOPPING

MYPY = False
if MYPY:
    from typing import Dict, Iterator, List, Optional, Set, Tuple

    from nemo_runspec.jobside.records import Record

_BEGINS = 5.0
"""Seconds that a stop waits for ranks, which know better what to do about it than a launcher that still starts."""

_CLOSING = 15.0
"""Seconds that a launcher has to close down once its ranks have ended: a stop that comes then has nobody to tell."""


class Ranks:
    """The ranks `first` to `first + count - 1` of this node.

    Args:
        status: the folder of records.
        barriers: that of the attempt, where they leave their notes.
    """

    def __init__(self, status: Folder, barriers: Folder, first: int, count: int) -> None:
        self._status = status
        self._gates = barriers
        self._numbers = range(first, first + count)
        self._told: "List[Tuple[int, Set[int], int]]" = []
        self._last: "List[Tuple[int, processes.Child, float]]" = []

    def clear(self) -> None:
        """Removes what an earlier attempt has left."""
        from nemo_runspec.jobside.records import remove

        for rank in self._numbers:
            remove(self._status.file("rank-%d" % rank))

    def tell(self, number: int, launcher: processes.Child) -> None:
        """Tells all ranks of a signal, those that are not there yet when they come (`go_on`).

        One that asks for the end goes to the launcher where no rank comes in time; a while later where all of them
        have ended, as it would make a failure of their success.
        """
        if number in STOPPING and not self._are_there():
            have_ended = all(self._status.has("rank-%d" % rank) for rank in self._numbers)
            self._last.append((number, launcher, time.monotonic() + (_CLOSING if have_ended else _BEGINS)))
        else:
            self._told.append((number, set(self._numbers), 0))
        self.go_on()

    def go_on(self) -> None:
        """Tells ranks that have come meanwhile, and a launcher that does not close down."""
        if self._last:
            self._go_on_with_launcher()
        for number, left, since in self._told:
            for rank in sorted(left):
                pid = self._supervisor(rank)
                if pid and (int(processes.started(pid) or 0) < since or processes.send(pid, number)):
                    left.discard(rank)
        self._told = [told for told in self._told if told[1]]

    def _go_on_with_launcher(self) -> None:
        """A stop that a launcher was told is told by it to the ranks that it has started by then.

        It may lose one while it starts itself (what Python imports may swallow an INT), and start ranks afterwards.
        """
        held, self._last = self._last, []
        for number, launcher, until in held:
            if self._are_there():
                self._told.append((number, set(self._numbers), 0))
            elif time.monotonic() >= until:
                launcher.send(number)
                self._told.append((number, set(self._numbers), processes.ticks()))
            else:
                self._last.append((number, launcher, until))

    @property
    def waits(self) -> bool:
        """True if a rank is still to be told, or their launcher."""
        return bool(self._told or self._last)

    def end_left(self) -> None:
        """Ends commands whose supervisor or launcher was killed."""
        for _, note in self._without_record():
            group = int(note.get("group", 0))
            if group and processes.started(group) == note.get("group_started"):
                processes.end_tree(group)

    @property
    def have_begun(self) -> bool:
        """True if there is or was any."""
        return any(self._gates.has("rank.%d" % rank) or self._status.has("rank-%d" % rank) for rank in self._numbers)

    def first_failure(self) -> "Optional[Record]":
        """The record of the rank that failed first: by time, before those that their launcher stopped for it."""
        failed = [record for record in self._records() if record.get("exit_code")]
        return min(failed, key=_failure_order, default=None)

    def unrecorded(self) -> "Optional[int]":
        """The first rank that has begun and left no record, None where all have."""
        return next((rank for rank, _ in self._without_record()), None)

    def given(self) -> "Dict[str, int]":
        """What they have given to the log: `lines`, `size` in bytes, and `lost`, lines that could not be written."""
        records = list(self._records())
        return {key: sum(int(record.get(key, 0)) for record in records) for key in ("lines", "size", "lost")}

    def _records(self) -> "List[Record]":
        found = (self._status.read("rank-%d" % rank) for rank in self._numbers)
        return [record for record in found if "rank" in record]

    def _without_record(self) -> "Iterator[Tuple[int, Record]]":
        """The ranks that have begun and left none, with their notes."""
        for rank in self._numbers:
            note = self._gates.read("rank.%d" % rank)
            if note and not self._status.has("rank-%d" % rank):
                yield rank, note

    def _are_there(self) -> bool:
        return any(map(self._supervisor, self._numbers))

    def _supervisor(self, rank: int) -> int:
        """The process id of a rank's supervisor that lives, 0 for none."""
        note = self._gates.read("rank.%d" % rank)
        pid = int(note.get("pid", 0))
        return pid if pid and processes.started(pid) == note.get("started") else 0


def _failure_order(failed: "Record") -> "Tuple[bool, float, int]":
    return bool(failed.get("stopped")), failed.get("ended", 0.0), failed["rank"]
