"""An index of jobs that are settled: what lists need of each, so that few records are read.

The file is a convenience: every line of it is believed only while `record.json` has the same time and size, it may be
deleted at any moment, and what cannot be read in it is left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from nemo_runspec import paths
from nemo_runspec.records.record import STATES, JobRecord, Unreadable, is_over, moment
from nemo_runspec.regular import read_regular

_VERSION = 3
_SLACK = 1000
"""Lines that stand for no job any more before the file is written anew."""

_MOST = 256 << 20
"""Bytes of the file that are read: a million jobs."""


class Entry(NamedTuple):
    """One job, sweep or pipeline in a list.

    `changed`: when it came into its state; `group`: the sweep a job belongs to, a sweep's own name; `labels`: its tags,
    with spaces between; `kind`: what a group is called, None for a job; `record`: where it has been read anyway.
    """

    name: str
    created: str
    changed: str
    state: str
    recipe: str
    executor: str
    profile: str | None
    group: str | None
    labels: str | None = None
    kind: str | None = None
    record: JobRecord | Unreadable | None = None

    @property
    def over(self) -> bool:
        """True where there is nothing to wait for."""
        return is_over(self.state)

    @property
    def unread(self) -> bool:
        """True for a job that has ended and of which something is still to be read; such a record is always at hand."""
        return isinstance(self.record, JobRecord) and bool(self.record.unread)

    @property
    def settled(self) -> bool:
        """True for a job that is over and of which all is known, so that this line of a list stays as it is."""
        return self.over and not self.unread

    @property
    def tags(self) -> Sequence[str]:
        """Its tags."""
        return (self.labels or "").split()

    @property
    def is_sweep(self) -> bool:
        """True for a sweep or a pipeline, not one of its jobs."""
        return self.group == self.name

    @property
    def noun(self) -> str:
        """`job`, `sweep` or `pipeline`."""
        return self.kind or ("sweep" if self.is_sweep else "job")


_TEXTS = 6
"""The first fields of an entry, which are always there."""

_STATE = Entry._fields.index("state")

Stamp = tuple[int, int]
"""Time (nanoseconds) and size (bytes) of a record's file."""


def entry_of(found: JobRecord | Unreadable) -> Entry:
    """What a list needs of a job that was read."""
    if isinstance(found, Unreadable):
        return Entry(found.name, found.created, found.created, found.state, "", "", None, None, record=found)
    return Entry(
        found.name,
        found.created,
        found.changed,
        found.state,
        found.recipe,
        found.executor,
        found.profile,
        found.group,
        labels_text(found.tags),
        record=found,
    )


def labels_text(tags: Iterable[str]) -> str | None:
    """Tags as an entry holds them; no tag has a space."""
    return " ".join(tags) or None


def stamp_of(file: str) -> Stamp | None:
    """The stamp of a record's file, None where there is none."""
    try:
        status = os.stat(file)  # noqa: PTH116  # thousands of them: Path.stat takes twice the time
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def changed_at(folder: Path) -> str:
    """When a folder was changed, UTC, ISO 8601; '' where it is not there."""
    try:
        return moment(folder.lstat().st_mtime) or ""
    except OSError:
        return ""


class Index:
    """The entries of one store's jobs that are settled.

    Args:
        root: the store's folder. The file lies beside it, so that the store holds jobs and nothing else.
    """

    def __init__(self, root: Path) -> None:
        self._file = root.with_name(f"{root.name}-index-{_VERSION}.jsonl")
        self._lines = 0
        self._known = self._load()
        self._fresh: list[tuple[Stamp, Entry]] = []

    def get(self, name: str, stamp: Stamp | None) -> Entry | None:
        """What is known of a job whose record has this stamp."""
        found = self._known.get(name)
        return found[1] if found is not None and found[0] == stamp else None

    def add(self, stamp: Stamp, entry: Entry) -> None:
        """Notes a job that is settled. The stamp was taken before its record was read."""
        self._fresh.append((stamp, entry))

    def save(self, present: int) -> None:
        """Writes down what was added. Where most lines stand for nothing any more, the whole file.

        Args:
            present: how many jobs there are. What cannot be written is read again next time.
        """
        with suppress(OSError):
            if self._lines + len(self._fresh) > 2 * present + _SLACK:
                self._known.update({entry.name: (stamp, entry) for stamp, entry in self._fresh})
                paths.write_private(self._file, _text(self._known.values()))
            elif self._fresh:
                _append(self._file, _text(self._fresh))

    def _load(self) -> dict[str, tuple[Stamp, Entry]]:
        try:
            text = read_regular(self._file, most=_MOST).decode("ascii", "replace")
        except OSError:
            return {}
        lines = [line for line in text.split("\n") if line]
        self._lines = len(lines)
        return {row[0]: ((row[-2], row[-1]), Entry(*row[:-2])) for row in _rows(lines) if _is_whole(row)}


def _rows(lines: list[str]) -> Iterable[Any]:
    try:
        return json.loads(f"[{','.join(lines)}]")  # type: ignore[no-any-return]
    except (ValueError, RecursionError):
        return [row for line in lines for row in _row(line)]


def _row(line: str) -> Iterable[Any]:
    try:
        return (json.loads(line),)
    except (ValueError, RecursionError):
        return ()


def _is_whole(row: Any) -> bool:
    """Texts, two of which may be missing, then time and size."""
    if not isinstance(row, list) or len(row) != len(Entry._fields) + 1:
        return False
    kinds = [type(cell) for cell in row]
    maybe = kinds[_TEXTS:-2]
    whole = kinds[:_TEXTS] == [str] * _TEXTS and kinds[-2:] == [int, int] and set(maybe) <= {str, type(None)}
    return whole and row[_STATE] in STATES


def _text(entries: Iterable[tuple[Stamp, Entry]]) -> str:
    return "".join(json.dumps([*entry[:-1], *stamp]) + "\n" for stamp, entry in entries)


def _append(file: Path, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW
    descriptor = os.open(file, flags, 0o600)
    try:
        # A line that a killed process left unfinished must not swallow the next one.
        os.write(descriptor, ("\n" + text).encode("ascii"))
    finally:
        os.close(descriptor)
