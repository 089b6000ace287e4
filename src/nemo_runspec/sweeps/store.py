"""Sweeps as they are kept: one folder each. `sweep.json` names the members; their jobs' records say the rest.

For lists there is an index of sweeps that are over, as there is one of jobs.
"""

from __future__ import annotations

import dataclasses
import os
from contextlib import suppress
from pathlib import Path

from nemo_runspec import paths
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.locks import Busy
from nemo_runspec.records import JobRecord, JobStore
from nemo_runspec.records.index import Entry, Index, changed_at, entry_of, labels_text, stamp_of
from nemo_runspec.records.lock import locked
from nemo_runspec.records.metrics import last_metrics
from nemo_runspec.records.record import Unreadable
from nemo_runspec.regular import is_kept, read_regular_text
from nemo_runspec.sweeps.codec import from_json, to_json
from nemo_runspec.sweeps.model import Member, Sweep
from nemo_runspec.sweeps.status import status_of

_FILE = "sweep.json"


class SweepStore:
    """Sweeps below one folder.

    Args:
        root: by default `~/.nemotron/sweeps`. It is made when the first sweep is.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or paths.home() / "sweeps"

    def folder(self, group: str) -> Path:
        """A sweep's folder."""
        return self.root / group

    def write(self, sweep: Sweep) -> None:
        """Writes a sweep down, whole or not at all, for its owner only.

        Raises:
            UserError: it cannot be written.
        """
        folder = self.folder(sweep.group)
        try:
            paths.private_dir(folder)
            with locked(folder):
                paths.write_private(folder / _FILE, to_json(sweep))
        except OSError as error:
            raise UserError(f"cannot record the {sweep.kind}: {error.strerror}", where=str(folder)) from None

    def keep_end(self, group: str) -> None:
        """Writes down how a sweep that is alone has ended, unless that is on record, or somebody else writes.

        It is decided under the lock: whoever runs the sweep once more meanwhile is not undone.
        """
        with suppress(OSError, ValueError, Busy), locked(self.folder(group), wait=False):
            stored = self._stored(group)
            now = self._now(group, stored)
            if stored.ended is None and now.ended is not None:
                paths.write_private(self.folder(group) / _FILE, to_json(now))

    def names(self) -> list[str]:
        """The sweeps there are, in no order."""
        try:
            with os.scandir(self.root) as found:
                return [entry.name for entry in found if is_kept(entry) and not entry.name.startswith(".")]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def entries(self) -> list[Entry]:
        """What a list needs of all sweeps, the newest first. Only those that are not over are read.

        `group` is their own name, as it is of their members.
        """
        names = self.names()
        index = Index(self.root)
        found = [self._entry(name, index) for name in names]
        index.save(len(names))
        return sorted(found, key=lambda entry: (entry.created, entry.name), reverse=True)

    def get(self, name: str) -> Sweep:
        """A sweep as it is now, with the records of its members. `name`: its own, or the beginning of it.

        Raises:
            UserError: there are none or several, or it cannot be read.
        """
        return _with_records(self.read(self._whole(name)))

    def read(self, group: str) -> Sweep:
        """A sweep by its whole name, without the records of its members. That is fast, and enough for its status.

        One that is alone comes with them, and with its end once all of them are over. Nothing is written
        (`sweeps.settle`).

        Raises:
            UserError: it cannot be read, or is gone.
        """
        try:
            return self._now(group, self._stored(group))
        except (OSError, ValueError) as error:
            raise UserError(
                f"sweep '{group}' cannot be read: {_in_words(error)}",
                where=str(self.folder(group) / _FILE),
                remedy=f"if it is not needed: nemotron jobs rm --force {group}",
            ) from None

    def _now(self, group: str, sweep: Sweep) -> Sweep:
        """The sweep with what is true now; nothing is written."""
        if sweep.ended is None and status_of(sweep).over:
            sweep = self._stored(group)  # its process may have written the end and gone after it was read
        if sweep.unattended and sweep.ended is None:
            return _concluded(_with_records(sweep))
        if sweep.ended is not None and not sweep.verdict:
            return _with_records(sweep)  # an earlier version wrote it: only its jobs say how it ended
        waits = not status_of(sweep).over
        members = tuple(dataclasses.replace(member, waits=waits) for member in sweep.members)
        return dataclasses.replace(sweep, members=members)

    def _stored(self, group: str) -> Sweep:
        return from_json(read_regular_text(self.folder(group) / _FILE))

    def _whole(self, name: str) -> str:
        names = self.names()
        matches = [name] if name in names else sorted(known for known in names if name and known.startswith(name))
        if not matches:
            raise UserError(f"no sweep '{name}'", where=str(self.root), remedy=did_you_mean(name, names))
        if len(matches) > 1:
            shown = ", ".join(matches[:5]) + (", …" if len(matches) > 5 else "")
            raise UserError(
                f"'{name}' is the beginning of {len(matches)} sweeps: {shown}", remedy="give more of its name"
            )
        return matches[0]

    def _entry(self, name: str, index: Index) -> Entry:
        file = self.folder(name) / _FILE
        stamp = stamp_of(str(file))
        known = index.get(name, stamp)
        if known is not None:
            return known
        try:
            stored = self._stored(name)
            sweep = self._now(name, stored)
        except (OSError, ValueError) as error:
            return entry_of(Unreadable(name, _in_words(error), changed_at(file.parent)))._replace(group=name)
        state = status_of(sweep).state
        entry = Entry(
            name,
            sweep.created,
            sweep.ended or sweep.created,
            state,
            sweep.recipe,
            sweep.executor,
            sweep.profile,
            name,
            labels_text(sweep.tags),
            sweep.kind,
        )
        if entry.over and stamp is not None and sweep.ended == stored.ended:
            index.add(stamp, entry)
        return entry


def _concluded(sweep: Sweep) -> Sweep:
    """A sweep that is alone, with its end once every job of it has ended."""
    records = [member.record for member in sweep.members if member.record is not None]
    if not records or not all(record.ended for record in records):
        return sweep
    status = status_of(sweep)
    last = max(record.changed for record in records)
    return dataclasses.replace(sweep, ended=last, verdict=status.state, exit_code=status.exit_code)


def _with_records(sweep: Sweep) -> Sweep:
    members = tuple(dataclasses.replace(member, record=record_of(member)) for member in sweep.members)
    return dataclasses.replace(sweep, members=members)


def record_of(member: Member) -> JobRecord | None:
    """The record of a member's job as it is now, None where it has none or it cannot be read.

    While the job runs, the record has the metrics that it has written so far.
    """
    folder = Path(member.job_dir)
    try:
        record = JobStore(folder.parent).by_name(folder.name) if (folder / "record.json").is_file() else None
    except UserError:
        return None
    if record is None or record.ended:
        return record
    return dataclasses.replace(record, metrics=last_metrics(member.metrics_file))


def _in_words(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "it has no record"
    return str(error.strerror or error) if isinstance(error, OSError) else str(error)
