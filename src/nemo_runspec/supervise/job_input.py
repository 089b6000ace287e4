"""The input of an attached job: this process's own standard input.

A file or a pipe is handed on as it is. What is typed at a terminal goes through a pipe: a job has a session of its own,
in which nothing would keep it from reading what is typed for the shell, once this process is in the background.
"""

from __future__ import annotations

import fcntl
import os
import selectors
import signal
import sys
import termios

_LINE = 4096
"""Bytes that a terminal gives at once: at most a line, as long as nobody has asked for single keys (man 3 termios)."""


class JobInput:
    """Nothing to be read, or a file that the job reads by itself.

    Attributes:
        end: the file that is the job's standard input; None for nothing.
        source: what there is to wait for; None for nothing.
    """

    source: int | None = None

    def __init__(self, end: int | None = None) -> None:
        self.end = end

    def attend(self, selector: selectors.BaseSelector) -> None:
        """Has `selector` wait for `source` as long as the job can take something. To be called before each look."""

    def pass_on(self) -> None:
        """Passes on what has come."""

    def close(self) -> None:
        """Nothing more is passed on."""


class Typed(JobInput):
    """What is typed at this process's terminal, while this process is in the foreground: a line, once the job has read
    the one before, so that what is typed ahead is left for whoever reads next.

    Raises:
        OSError: this process has no terminal of its own.
    """

    def __init__(self) -> None:
        # A file of our own, not standard input: that cannot wait, and others share it.
        self._terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NONBLOCK)
        self.source = self._terminal
        end, self._pipe = os.pipe()
        self._is_over = self._is_attended = False
        super().__init__(end)

    def attend(self, selector: selectors.BaseSelector) -> None:
        """As `JobInput.attend`."""
        wanted = not self._is_over and self._is_ours() and self._is_read()
        if wanted and not self._is_attended:
            selector.register(self._terminal, selectors.EVENT_READ)
        elif self._is_attended and not wanted:
            selector.unregister(self._terminal)
        self._is_attended = wanted

    def pass_on(self) -> None:
        """As `JobInput.pass_on`; Ctrl-D at the beginning of a line is the end of all."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTIN})
        try:
            typed = os.read(self._terminal, _LINE)
        except OSError:  # nothing there, or no longer in the foreground: the signal would stop this process
            return
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if typed:
            os.write(self._pipe, typed)
        else:
            self._is_over = True
            os.close(self._pipe)

    def close(self) -> None:
        """As `JobInput.close`."""
        if not self._is_over:
            self._is_over = True
            os.close(self._pipe)
        if self.end is not None:
            os.close(self.end)
            os.close(self._terminal)
            self.end = None

    def _is_ours(self) -> bool:
        """True if what is typed now is for this process: not for the shell, nor for a pager that it writes to."""
        try:
            if os.tcgetpgrp(self._terminal) != os.getpgrp():
                return False
            return bool(termios.tcgetattr(self._terminal)[3] & termios.ICANON)
        except (OSError, termios.error):
            return False

    def _is_read(self) -> bool:
        """True if the job has read all that it was given."""
        assert self.end is not None
        return not int.from_bytes(fcntl.ioctl(self.end, termios.FIONREAD, bytes(4)), sys.byteorder)


def standard_input() -> JobInput:
    """This process's own, for a job."""
    if sys.stdin is None:  # closed when this process was started
        return JobInput()
    if not os.isatty(0):
        return JobInput(0)
    try:
        os.tcgetpgrp(0)
        return Typed()
    except OSError:  # a terminal, but not the one whose foreground this process may be in
        return JobInput()
