"""Writes a job's output line by line to its log file and to this terminal, both without secrets."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from nemo_runspec import paths
from nemo_runspec.console import Say, is_quiet
from nemo_runspec.lines import text_lines
from nemo_runspec.records.drawn import DrawnLines, StateFile, is_prompt, text_of
from nemo_runspec.records.log_view import make_view, plain_text
from nemo_runspec.redact import LineFilter
from nemo_runspec.supervise.progress import MetricsBar


class JobOutput:
    """Takes the job's output in pieces of any size.

    Args:
        log: the log file.
        metrics: the file of JSON lines that the progress bar follows.
        secrets: values that must not be seen.
        say: prints a line of nemotron's own.
        show: whether it goes to this process's standard output too.

    Attributes:
        lost_lines: how many lines could not be written to the log.
    """

    def __init__(self, log: Path, metrics: Path, secrets: Iterable[str], say: Say, *, show: bool = True) -> None:
        paths.private_dir(log.parent)
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._log_path = log
        self._filter = LineFilter(secrets)
        self._say = say
        self._broken = not show or sys.stdout is None  # None: it was closed when this process was started
        self.lost_lines = 0
        self._lines = DrawnLines(cleaned=self._filter.without_begun)
        self._state = StateFile(log)
        self._size = 0
        self._view = make_view()
        has_bar = not (self._broken or is_quiet()) and sys.stdout.isatty()
        self._bar = MetricsBar(metrics, self._view.clear) if has_bar else None

    def feed(self, data: bytes) -> None:
        """Takes a piece."""
        self._show(self._filter.feed(data))

    def tick(self) -> None:
        """Brings up to date what is drawn: lines that are not whole yet, and the progress bar."""
        self._state.write(self._lines)
        if not self._broken:
            self._guarded(self._draw)

    def say(self, text: str) -> None:
        """A line of nemotron's own, above what is drawn."""
        if self._bar is not None and self._bar.is_drawn and not self._broken:
            self._bar.print(text)
        else:
            self._make_room()
            self._say(text)

    def flush(self) -> None:
        """Gives on what is held: there is no more of it."""
        self._show(self._filter.close())
        self._size = os.fstat(self._log).st_size

    def close(self) -> None:
        """Gives on what is held, ends the bar and closes the log."""
        self.flush_rest()
        if self._bar is not None and not self._broken:
            self._guarded(self._bar.close)
        os.close(self._log)

    def flush_rest(self) -> None:
        """Gives on lines of a job that was killed, as they were last; unless the log has its end from elsewhere."""
        has_more = self._size and os.fstat(self._log).st_size != self._size
        self.flush()
        rest = self._lines.unfinished()
        self._state.write(self._lines)
        if not has_more:
            self._show(rest)
        self._make_room()

    def _draw(self) -> None:
        """The bar below all is the latest that is drawn again; a prompt is answered before anything else is drawn."""
        state = self._lines.shown
        if self._bar is None:
            self._view.draw(state)
        elif is_prompt(state):
            self._bar.give_way()
            self._view.draw(state)
        elif self._bar.is_drawn:
            self._bar.update(plain_text(text_of(state)))
        else:
            if state:
                self._bar.step_aside()
            self._view.draw(state)
            self._bar.update(plain_text(text_of(state)))

    def _show(self, text: bytes) -> None:
        lines = self._lines.take(text)
        if not lines:
            return
        self._write_log(lines)
        if not self._broken:
            self._guarded(lambda: self._write_terminal(lines))

    def _write_log(self, lines: bytes) -> None:
        view = memoryview(lines)
        try:
            while view:
                view = view[os.write(self._log, view) :]
        except OSError as error:
            first = not self.lost_lines
            self.lost_lines += max(1, bytes(view).count(b"\n"))
            if first:
                self._say(f"the log cannot be written ({error.strerror}); the job goes on: {self._log_path}")

    def _make_room(self) -> None:
        if self._broken:
            return
        if self._bar is not None:
            self._guarded(self._bar.step_aside)
        self._guarded(self._view.clear)

    def _write_terminal(self, lines: bytes) -> None:
        if self._bar is not None and self._bar.is_drawn:
            for line in text_lines(lines.decode("utf-8", "replace")):
                self._bar.print(line)
            return
        if self._bar is not None:
            self._bar.step_aside()
        self._view.write(lines)

    def _guarded(self, write: Callable[[], None]) -> None:
        """The reader of our output may go away, as `head` does; the job must not notice."""
        try:
            write()
        except OSError as error:
            self._broken = True
            # Python flushes the stream once more at exit and would complain.
            with Path(os.devnull).open("wb") as sink:
                os.dup2(sink.fileno(), 1)
            why = "was closed" if error.errno == errno.EPIPE else f"cannot be written ({error.strerror})"
            self._say(f"standard output {why}; the job goes on, its log is {self._log_path}")
