"""`nemotron jobs status --watch`: a screen that renews itself until all jobs are over; elsewhere a line per change."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from nemo_runspec.polling import Backoff
from nemo_runspec.records.record import JobRecord
from nemo_runspec.text import one_line
from nemo_runspec.visible import unfiltered
from nemotron.cli.commands.jobs.messages import say
from nemotron.cli.job_formatting import coloured
from nemotron.cli.text import colour_wanted

_UP = "\x1b[{}F\x1b[J"  # to the beginning of the line so many above, and all below cleared (ECMA-48, CPL, ED)

_PAUSES = (1.0, 3.0)
"""Seconds between two looks at jobs of this machine, after a change and at most."""
_REMOTE_PAUSES = (3.0, 20.0)
"""The same where a platform is asked."""


@dataclass(frozen=True)
class Look:
    """What was seen of the jobs at one moment.

    Args:
        records: of all jobs.
        rows: the lines of the table, its head first.
        going: whether there is more to come: a job, or a sweep that starts more of them.
        troubles: what keeps platforms from answering.
    """

    records: Sequence[JobRecord]
    rows: Sequence[str]
    going: bool = True
    troubles: Sequence[str] = ()


def watch(look: Callable[[], Look], tell: Callable[[JobRecord], str] | None = None) -> int:
    """Looks until all is over; the exit code: the first job's that has not succeeded, 130 after Ctrl-C.

    Args:
        look: asks the platforms.
        tell: the line that a change is; None for one for people.
    """
    screen = _Screen() if tell is None and colour_wanted(sys.stdout) else _Lines(tell or _line)
    pauses: Backoff | None = None
    try:
        while True:
            seen = look()
            changed = screen.show(seen)
            if not seen.going:
                return _code(seen.records)
            if pauses is None:
                pauses = Backoff(*(_REMOTE_PAUSES if any(r.handle for r in seen.records) else _PAUSES))
            if changed:
                pauses.reset()
            pauses.wait()
    except KeyboardInterrupt:
        say("no longer watched; what has not ended goes on")
        return 130


def _code(records: Sequence[JobRecord]) -> int:
    from nemo_runspec.remote.wait import exit_code_of

    return next((code for record in records if (code := exit_code_of(record))), 0)


class _Screen:
    """The table, in the place of the one before."""

    def __init__(self) -> None:
        self._drawn = 0
        self._states: dict[str, str] = {}

    def show(self, seen: Look) -> bool:
        """Draws it; whether a state has changed."""
        height = max(2, shutil.get_terminal_size().lines - 2)
        rows = list(seen.rows)
        if len(rows) > height:
            rows = [*rows[: height - 1], f"… and {len(rows) - height + 1} more"]
        at = f"{datetime.now():%H:%M:%S}"
        last = "; ".join(seen.troubles) or ("Ctrl-C ends the watching, not the jobs" if seen.going else "all are over")
        lines = [*rows, one_line(f"{at}  {last}")[: shutil.get_terminal_size().columns - 1]]
        if self._drawn:
            sys.stdout.flush()
            unfiltered(sys.stdout).write(_UP.format(self._drawn))
        print("\n".join(lines), flush=True)
        self._drawn = len(lines)
        before, self._states = self._states, {record.name: record.state for record in seen.records}
        return before != self._states


class _Lines:
    """A line where the state of a job, or what is said of it, is another one than before."""

    def __init__(self, tell: Callable[[JobRecord], str]) -> None:
        self._tell = tell
        self._known: dict[str, tuple[str, str]] = {}
        self._troubles: set[str] = set()

    def show(self, seen: Look) -> bool:
        """Says what is new; whether anything was."""
        for text in seen.troubles:
            if text not in self._troubles:
                say(f"{text}; asking again")
        self._troubles = set(seen.troubles)
        new = [record for record in seen.records if self._known.get(record.name) != _state(record)]
        for record in new:
            self._known[record.name] = _state(record)
            with suppress(ValueError):
                print(self._tell(record), flush=True)
        return bool(new)


def _state(record: JobRecord) -> tuple[str, str]:
    return record.state, record.why


def _line(record: JobRecord) -> str:
    from nemo_runspec.records.record import code_and_why

    code = record.exit_code if record.over else None
    why = one_line(code_and_why(code or None, record.why))
    return f"{datetime.now():%Y-%m-%d %H:%M:%S}  {record.name}: {coloured(record.state, record.state)}{why}"
