"""Signals on the job side: blocked from the first line on, and taken one at a time.

A handler runs between any two lines and a signal that comes before it is set ends the process; a blocked signal waits
in the kernel until it is asked for. A mask is inherited, also through exec: whoever starts a program here gives it an
empty one (`processes.start`).
"""

MYPY = False  # true for type checkers; typing takes longer to import than all the rest
if MYPY:
    import signal
    from typing import Dict, Optional, Sequence
else:
    import _signal as signal  # what the package is made of: its enums take as long to import as ten modules of ours

HUP, INT, KILL, USR1, ABRT = signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGUSR1, signal.SIGABRT
USR2, TERM, CHLD = signal.SIGUSR2, signal.SIGTERM, signal.SIGCHLD
NAMES: "Dict[int, str]" = {HUP: "HUP", INT: "INT", USR1: "USR1", USR2: "USR2", TERM: "TERM"}

HEARD = tuple(NAMES)
"""What a job may be told."""

STOPPING = (HUP, INT, TERM)
"""Those that ask for its end; the others mean what the user's program takes them for."""

_TAKEN = (*HEARD, CHLD, signal.SIGALRM)


class Signal:
    """One signal: its `number`, its `name` without SIG, the process id of its `sender` (0: the kernel or unknown)."""

    def __init__(self, number: int, sender: int) -> None:
        self.number = number
        self.sender = sender
        self.name = NAMES[number]

    @property
    def stops(self) -> bool:
        """True if it asks for the job's end."""
        return self.number in STOPPING


def block() -> None:
    """Blocks all signals that this process takes by `wait`. To be called before anything else is imported."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _TAKEN)
    signal.signal(CHLD, signal.SIG_DFL)  # where it is ignored, the kernel drops what children return


def unblock_for_exec(ignored: "Sequence[int]" = (), blocked: "Sequence[int]" = ()) -> None:
    """Gives a program that is about to be started an empty mask and default handlers, whatever this process has.

    Args:
        ignored: those that it, and what it starts, does not hear.
        blocked: those that wait until the program takes them: one that does so by `wait` loses none of its first lines.
    """
    for number in (*_TAKEN, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGQUIT):
        if number not in blocked:
            signal.signal(number, signal.SIG_IGN)  # what came to the group meanwhile was heard here
        signal.signal(number, signal.SIG_DFL)
    for unheard in ignored:
        signal.signal(unheard, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def wait(seconds: float) -> "Optional[Signal]":
    """The next signal within so many seconds; None where a child has ended or the time is up.

    The time is a timer's, not that of `sigtimedwait`: where that is interrupted, as by a stop of the whole job, and its
    time has passed by then, it returns what lay in its memory, such as the signal before (seen with CPython 3.11). Its
    time of 0 cannot be interrupted.
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


def end_by(number: int) -> None:
    """Ends this process by a signal, as what it stands for has been ended; without a core file of its own."""
    import os
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    unblock_for_exec()
    os.kill(os.getpid(), number)


def number_of(name: str) -> int:
    """The number of a signal by its name without SIG; TERM's for one that is none of a job's."""
    return next((number for number, known in NAMES.items() if known == name), TERM)


def exit_code(number: int) -> int:
    """What a signal makes of an exit code, as shells have it: of a program it ended, of a job that it stopped early.

    The one rule for all that is told to stop before its command has begun, on any backend.
    """
    return 128 + number
