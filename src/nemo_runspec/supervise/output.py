"""Where a job's output goes: line by line to its log file and to this terminal, both without secrets."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from nemo_runspec import paths
from nemo_runspec.console import is_quiet
from nemo_runspec.redact import LineFilter
from nemo_runspec.supervise.progress import MetricsBar


class JobOutput:
    """Takes the job's output in pieces of any size.

    Args:
        log: the log file; `metrics`: the file of JSON lines that the progress bar follows.
        secrets: values that must not be seen.
        say: prints a line of nemotron's own.
        show: whether it goes to this process's standard output too.

    Attributes:
        lost_lines: how many lines could not be written to the log.
    """

    def __init__(
        self, log: Path, metrics: Path, secrets: Iterable[str], say: Callable[[str], None], *, show: bool = True
    ) -> None:
        paths.private_dir(log.parent)
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._log_path = log
        self._filter = LineFilter(secrets)
        self._say = say
        self._broken = not show or sys.stdout is None  # None: it was closed when this process was started
        self.lost_lines = 0
        self._bar = None if self._broken or is_quiet() or not sys.stdout.isatty() else MetricsBar(metrics)

    def feed(self, data: bytes) -> None:
        """Takes a piece."""
        self._show(self._filter.feed(data))

    def tick(self) -> None:
        """Brings the progress bar up to date."""
        if self._bar is not None and not self._broken:
            self._guarded(self._bar.update)

    def say(self, text: str) -> None:
        """A line of nemotron's own, above the progress bar where there is one."""
        if self._bar is not None and self._bar.is_drawn and not self._broken:
            self._bar.print(text)
        else:
            self._make_room()
            self._say(text)

    def flush(self) -> None:
        """Gives on what is held: there is no more of it."""
        self._show(self._filter.close())

    def close(self) -> None:
        """Gives on what is held, ends the bar and closes the log."""
        self.flush()
        if self._bar is not None and not self._broken:
            self._guarded(self._bar.close)
        os.close(self._log)

    def _show(self, lines: bytes) -> None:
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
        if self._bar is not None and not self._broken:
            self._guarded(self._bar.step_aside)

    def _write_terminal(self, lines: bytes) -> None:
        self._make_room()
        if self._bar is not None and self._bar.is_drawn:
            for line in lines.decode("utf-8", "replace").splitlines():
                self._bar.print(line)
            return
        stream = getattr(sys.stdout, "buffer", None)
        if stream is None:
            sys.stdout.write(lines.decode("utf-8", "replace"))
        else:
            stream.write(lines)
        sys.stdout.flush()

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
