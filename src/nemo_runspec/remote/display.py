"""Lines that an attached run adds to its job's log, on standard error, where something changes.

On a terminal the line of a waiting job is renewed in place; elsewhere a new one comes where it says something new, and
not more often than is useful.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nemo_runspec.backends import find_backend
from nemo_runspec.console import is_quiet
from nemo_runspec.diagnosis.display import rows_of
from nemo_runspec.duration import span
from nemo_runspec.records import JobRecord
from nemo_runspec.records.facts import JobFacts
from nemo_runspec.records.record import code_and_why, is_over
from nemo_runspec.records.status import JobStatus
from nemo_runspec.text import one_line, shorten
from nemo_runspec.visible import unfiltered

_PLACE_PAUSE, _ESTIMATE_PAUSE = 60.0, 600.0
"""Seconds between two lines that differ only in the place in the queue, or only in the estimated start."""

_HEAD = "nemotron: "
_LEAST = 10
"""Characters of a reason that are worth being shown."""

_ERASE = "\r\x1b[K"  # to the first column, and the rest of the line cleared (ECMA-48, EL)
_LONG = ("seen in", " shows")
"""How labels of rows end that hold lines of a log."""


def make_display() -> Display:
    """A display on standard error; one that is gone is not missed."""
    on_terminal = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return Display(_write, tty=on_terminal, width=_width, now=time.time)


class Display:
    """A job as it is told about. Its `seen`, `trouble`, `recovered` and `clear` are those of `follow.Watcher`.

    Facts it shows: `id`, `partition`, `position` of `queued` jobs, `waiting` (why), `replicas` (how many are ready),
    `overdue` (a deadline that has passed), `unanswered` (what its platform did not tell beside it), `estimated` (start,
    seconds since 1970), `nodes`, `attempt` (from 0) of `attempts`.

    Args:
        write: takes text for the terminal.
        tty: whether it can renew a line.
        width: the terminal's columns now.
        now: seconds since 1970.
    """

    def __init__(
        self, write: Callable[[str], object], *, tty: bool, width: Callable[[], int], now: Callable[[], float]
    ) -> None:
        self._write = write
        self._tty = tty
        self._width = width
        self._now = now
        self._drawn = False
        self._said: _Waiting | str | None = None
        self._said_at = float("-inf")
        self._trouble: tuple[str, float] | None = None
        self._overdue = ""
        self._unanswered: set[str] = set()
        self._attempt: int | None = None

    def seen(self, record: JobRecord, seen: JobStatus) -> None:
        """Says what is new. How a job ended is for `ended`, which knows why."""
        if is_over(seen.state) or seen.gone:
            self.clear()
            return
        self._remarkable(record, seen)
        if seen.state in ("queued", "submitting") or (seen.state == "starting" and seen.facts.waiting):
            self._waits(_Waiting.of(seen, self._now()))
        else:
            self._goes_on(_line_of(seen))

    def trouble(self, text: str) -> None:
        """Says once that the platform cannot be asked, and again where that is for another reason."""
        text = one_line(text)
        said, since = self._trouble or ("", self._now())
        if text != said:
            self._say(f"{text}; the job is not touched by that, asking again")
        self._trouble = (text, since)

    def recovered(self) -> None:
        """Says that it can be asked again."""
        if self._trouble is not None:
            self._say(f"connected again, after {span(self._now() - self._trouble[1])}")
        self._trouble = None

    def ended(self, record: JobRecord) -> None:
        """Says how the job ended, and why it failed."""
        self.clear()
        columns = self._width() if self._tty else None
        self._write("".join(f"{line}\n" for line in closing_lines(record, columns)))

    def clear(self) -> None:
        """Takes the line away that is renewed, so that something else can be written."""
        if self._drawn:
            self._write(_ERASE)
            self._drawn = False

    def _remarkable(self, record: JobRecord, seen: JobStatus) -> None:
        """What is said once, in a line that stays: another attempt, and that it waits for too long."""
        attempt = seen.facts.attempt
        before, self._attempt = self._attempt, self._attempt if attempt is None else attempt
        if record.attempt and record.attempt.tried and self._attempt != before and self._attempt:
            self._say(f"{record.name}: {attempt_and_reason(record)}")
        overdue = seen.facts.overdue
        if overdue and overdue != self._overdue:
            self._say(f"{record.name} is {seen.state} {overdue}; why: nemotron jobs diagnose {record.name}")
        self._overdue = overdue
        unanswered = seen.facts.unanswered
        if unanswered and unanswered not in self._unanswered:
            self._say(one_line(unanswered))
        self._unanswered.add(unanswered)

    def _waits(self, waiting: _Waiting) -> None:
        if self._tty:
            # Not up to the last column: many terminals begin a new line there, which is not taken away.
            self._write(f"{_ERASE}{waiting.fitting(self._width() - 1)}")
            self._drawn, self._said = True, waiting
        elif self._now() - self._said_at >= waiting.pause_after(self._said):
            self._say(waiting.text())
            self._said = waiting

    def _goes_on(self, line: str) -> None:
        self.clear()
        if line != self._said:
            self._say(line)
            self._said = line

    def _say(self, line: str) -> None:
        self.clear()
        self._write(f"{_HEAD}{line}\n")
        self._said_at = self._now()


def closing_lines(record: JobRecord, columns: int | None = None) -> list[str]:
    """How a job ended: its state, how long it ran and where; why it failed; what it has made.

    Args:
        columns: of the terminal. The line of a log that is shown is cut to them; what else is long is left to it.
    """
    took = "" if record.elapsed is None else f" after {span(record.elapsed)}"
    nodes = f" on {record.facts.nodes}" if record.facts.nodes else ""
    attempt = f", attempt {attempt_words(record.facts)}" if record.facts.attempt else ""
    why = one_line("" if record.diagnosis.get("what") else record.reason or record.cause)
    ended = code_and_why(record.exit_code, why)
    if record.unread and record.exit_code is None:
        ended = f", exit code not known yet ({one_line(record.unread)}){ended}"
    lines = [f"{record.name}: {record.state}{took}{nodes}{attempt}{ended}"]
    lines += [f"  {one_line(record.facts.unanswered)}"] if record.facts.unanswered else []
    lines += _why(record.diagnosis, columns)
    return lines + [f"  {name}: {path}" for name, path in record.outputs.items()]


def attempt_and_reason(record: JobRecord) -> str:
    """Which attempt of a job runs, and why there was another: `attempt 2 of 3 after: node-1 was lost`."""
    assert record.attempt is not None, "told of jobs that are tried again"
    last = record.attempt.tried[-1]
    why = one_line(last.what or last.kind)
    attempt = f"attempt {attempt_words(JobFacts(attempt=record.attempt.number, attempts=record.attempt.limit))}"
    return f"{attempt}{f' after: {why}' if why else ''}"


def place_of(record: JobRecord) -> str:
    """Where a job of another machine is, for a person."""
    backend = find_backend(record.executor)
    keys = backend.handle_place if backend else ()
    return str(next((record.handle[key] for key in keys if record.handle.get(key)), record.host))


def clock(moment: float, now: float) -> str:
    """A time in the local zone: today the minute, within six days the day with it, else the date.

    Args:
        moment, now: seconds since 1970.
    """
    local, today = datetime.fromtimestamp(moment).astimezone(), datetime.fromtimestamp(now).astimezone()
    days = (local.date() - today.date()).days
    if days == 0:
        return local.strftime("%H:%M")
    return local.strftime("%a %H:%M" if 0 < days < 7 else "%Y-%m-%d %H:%M")


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A job that waits. `ready`: how many of its replicas do not any more. `start`: when it is expected to begin,
    `away`: how far that is from now, both in words."""

    head: str
    ready: str
    place: str
    partition: str
    why: str
    start: str
    away: str

    @classmethod
    def of(cls, seen: JobStatus, now: float) -> _Waiting:
        facts = seen.facts
        id = f" ({facts.id})" if facts.id else ""
        starting = seen.state == "starting"
        state = "starting" if starting else "requeued" if facts.attempt else "queued"
        estimated = facts.estimated or 0.0
        to_come = estimated > now
        return cls(
            f"{state}{id}{f', attempt {attempt_words(facts)}' if facts.attempt else ''}",
            facts.replicas if starting else "",
            f"{facts.position}{_of(facts.queued)}" if facts.position else "",
            facts.partition,
            one_line(facts.waiting or seen.reason),
            clock(estimated, now) if to_come else "",
            _roughly(estimated - now) if to_come else "",
        )

    def text(self) -> str:
        """All of it."""
        place = f"position {self.place}{f' in {self.partition}' if self.partition else ''}" if self.place else ""
        start = f"estimated start {self.start} (in {self.away})" if self.start else ""
        return self._joined(self._middle(place, self.why), start)

    def fitting(self, columns: int) -> str:
        """As much of it as goes into one line: said in fewer words, then the reason cut, then the rest of it."""
        texts = [f"{_HEAD}{text}" for text in (self.text(), *self._shorter(self.why))]
        found = next((text for text in texts if len(text) <= columns), "")
        room = columns - len(texts[-1]) + len(self.why)
        if not found and room >= _LEAST:
            found = [f"{_HEAD}{text}" for text in self._shorter(shorten(self.why, room))][-1]
        return found or shorten(f"{_HEAD}{self._joined(self.why, '')}", columns)

    def pause_after(self, said: _Waiting | str | None) -> float:
        """Seconds since another line was said, before this one is worth being."""
        if not isinstance(said, _Waiting) or (self.head, self.partition, self.why) != (
            said.head,
            said.partition,
            said.why,
        ):
            return 0.0
        if (self.place, self.ready) != (said.place, said.ready):
            return _PLACE_PAUSE
        return _ESTIMATE_PAUSE if self.start != said.start else float("inf")

    def _shorter(self, why: str) -> Iterator[str]:
        start = f"start {self.start}" if self.start else ""
        for place in (f"position {self.place}" if self.place else "", self.place):
            yield self._joined(self._middle(place, why), start)

    def _middle(self, place: str, why: str) -> str:
        return "; ".join(filter(None, (self.ready, ", ".join(filter(None, (place, why))))))

    def _joined(self, middle: str, start: str) -> str:
        return "; ".join(filter(None, (": ".join(filter(None, (self.head, middle))), start)))


def _line_of(seen: JobStatus) -> str:
    """A job that no longer waits: where it is and, where there is more to be known, why."""
    where = f" on {seen.facts.nodes}" if seen.facts.nodes else ""
    attempt = f", attempt {attempt_words(seen.facts)}" if seen.facts.attempt else ""
    why = f": {one_line(seen.reason)}" if seen.reason else ""
    state = "its state is not known" if seen.state == "unknown" else f"{seen.state}{where}{attempt}"
    return f"{state}{why}"


def attempt_words(facts: JobFacts) -> str:
    """Which attempt, counted from 1, and how many there may be where that is known."""
    return f"{(facts.attempt or 0) + 1}{_of(facts.attempts)}"


def _of(total: int | None) -> str:
    return f" of {total}" if total else ""


def _roughly(seconds: float) -> str:
    """How far away a moment is: nobody knows it to the second, nor a day ahead to the minute."""
    return span(seconds if seconds < 60 else seconds // 60 * 60)


def _why(diagnosis: Mapping[str, Any], columns: int | None) -> list[str]:
    rows = [(label, one_line(text)) for label, text in rows_of(diagnosis)]
    wide = max((len(label) for label, _ in rows), default=0)
    lines = [(label, f"  {label:{wide}}  {text}") for label, text in rows if text]
    return [shorten(line, columns) if columns and label.endswith(_LONG) else line for label, line in lines]


def _width() -> int:
    """Columns of the terminal on standard error, whatever standard output is."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError, AttributeError):
        return shutil.get_terminal_size().columns


def _write(text: str) -> None:
    if is_quiet():
        return
    try:
        stream = unfiltered(sys.stderr)
        stream.write(text)
        stream.flush()
    except (AttributeError, OSError, ValueError):  # closed when this process was started, or gone since
        return
