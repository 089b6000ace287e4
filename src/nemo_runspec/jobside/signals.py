"""Signals on the job side: blocked from the first line on, and taken one at a time.

A handler runs between any two lines and a signal that comes before it is set ends the process; a blocked signal waits
in the kernel until it is asked for. A mask is inherited, also through exec: whoever starts a program here gives it an
empty one (`processes.start`).
"""

import signal

MYPY = False  # true for type checkers; typing takes longer to import than all the rest
if MYPY:
    from typing import Optional

HEARD = (signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)
"""What a job may be told."""

STOPPING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""Those that ask for its end; the others mean what the user's program takes them for."""

_TAKEN = (*HEARD, signal.SIGCHLD, signal.SIGALRM)


class Signal:
    """One signal: its `number`, its `name` without SIG, the process id of its `sender` (0: the kernel or unknown)."""

    def __init__(self, number: int, sender: int) -> None:
        self.number = number
        self.sender = sender
        self.name = signal.Signals(number).name[3:]

    @property
    def stops(self) -> bool:
        """Whether it asks for the job's end."""
        return self.number in STOPPING


def block() -> None:
    """Blocks all signals that this process takes by `wait`. To be called before anything else is imported."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _TAKEN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, the kernel drops what children return


def unblock_for_exec() -> None:
    """Gives a program that is about to be started an empty mask and default handlers, whatever this process has."""
    for number in (*_TAKEN, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def wait(seconds: float) -> "Optional[Signal]":
    """The next signal within so many seconds; None where a child has ended or the time is up.

    The time is a timer's, not that of `sigtimedwait`: where that is interrupted, as by a stop of the whole job, and its
    time has passed by then, it returns what lay in its memory, such as the signal before (seen with CPython 3.11). Its time of 0 cannot be interrupted.
    """
    if seconds <= 0:
        found = signal.sigtimedwait(_TAKEN, 0)
    else:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        found = signal.sigwaitinfo(_TAKEN)
        signal.setitimer(signal.ITIMER_REAL, 0)
    if found is None or found.si_signo not in HEARD:
        return None
    return Signal(found.si_signo, found.si_pid)
