"""Daemons of a lab, started and signalled by process id, and what is needed to wait for them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CLEAN = {"PATH": PATH, "LC_ALL": "C.UTF-8", "HOME": "/root"}
"""What a daemon sees: nothing of the test's own environment, so nothing of it can reach a job by accident."""


class LabError(RuntimeError):
    """A part of the lab did not do what it was told."""


def until(condition: Callable[[], bool], what: str, seconds: float = 120, why: Callable[[], str] = str) -> None:
    """Waits until the condition holds.

    Args:
        why: called when it did not, for the message.

    Raises:
        LabError: it did not within this many seconds.
    """
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise LabError(f"after {seconds:.0f} s still not: {what}\n{why()}")
        time.sleep(0.02)


def threads(pid: int) -> list[Path]:
    """The folders of a process's threads in /proc, which may be gone at once; none where it has ended."""
    with suppress(OSError):
        return list(Path(f"/proc/{pid}/task").iterdir())
    return []


def children(pid: int) -> list[int]:
    """The process ids of the children that are alive."""
    found: list[int] = []
    for thread in threads(pid):  # each has children of its own
        with suppress(OSError):
            found += map(int, (thread / "children").read_text().split())
    return found


def descendants(pid: int) -> Iterator[int]:
    """The process ids of the children, their children, and so on."""
    for child in children(pid):
        yield child
        yield from descendants(child)


def only_child(process: subprocess.Popen[bytes]) -> int:
    """The process that `nsenter --pid` or `unshare --fork` has made: it alone is in the namespace.

    Raises:
        LabError: it ended before it had made one.
    """

    def there() -> bool:
        return bool(children(process.pid)) or process.poll() is not None

    until(there, f"a child of {process.args!r}")
    found = children(process.pid)
    if not found:
        raise LabError(f"ended with {process.returncode}: {process.args!r}")
    return found[0]


def name_of(pid: int) -> str:
    """The name of a process, empty once it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def strike(victims: Callable[[], Iterable[int]], number: int, *, later: bool = False) -> int:
    """Sends a signal to processes; how many they were.

    Returns when SIGKILL and SIGSTOP have done their work: until then one may go on, for seconds on a busy machine.

    Args:
        later: those too that have come meanwhile, as children of the others.
    """
    struck: set[int] = set()
    states = {signal.SIGKILL: {"Z", "X"}, signal.SIGSTOP: {"T", "t", "Z", "X"}}.get(signal.Signals(number), set())
    while new := [pid for pid in victims() if pid not in struck and state_of(pid) not in ("", "Z", "X")]:
        for pid in new:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        for pid in new if states else ():
            until(lambda pid=pid: thread_states(pid) <= states, f"signal {number} to {pid}")  # type: ignore[misc]
        struck.update(new)
        if not later:
            break
    return len(struck)


def thread_states(pid: int) -> set[str]:
    """The letters of /proc/PID/stat for what its threads do; none once it has gone."""
    found: set[str] = set()
    for thread in threads(pid):
        with suppress(OSError):
            found.add((thread / "stat").read_text().rpartition(")")[2].split()[0])
    return found


def state_of(pid: int) -> str:
    """The letter of /proc/PID/stat, such as `T` for stopped; empty once it has gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def tail(file: Path, lines: int = 20) -> str:
    """The last lines of a file; empty where there is none."""
    if not file.exists():
        return ""
    return "\n".join(file.read_text(errors="replace").splitlines()[-lines:])


# nsenter stops itself when its child is stopped, and nothing would bury the child then: a shell stands between them.
_KEEPER = ("bash", "-c", '"$@" & wait "$!"', "keeper")


@dataclass
class Daemon:
    """A daemon in the foreground, entered into its namespaces by `nsenter`, which waits for it through a shell.

    Args:
        enter: the nsenter command; it must enter a pid namespace.
        command: the daemon and its arguments.
        log: where its output goes.
    """

    name: str
    enter: Sequence[str]
    command: Sequence[str]
    log: Path
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Starts it; does nothing where it runs."""
        if self.alive():
            return
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.enter, *_KEEPER, *self.command],
                env=CLEAN,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def alive(self) -> bool:
        """True until it has ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process id on the machine."""
        if self._process is None:
            raise LabError(f"{self.name} was not started")
        keeper = only_child(self._process)
        until(lambda: bool(children(keeper)) or not self.alive(), f"{self.name}'s process")
        found = children(keeper)
        if not found:
            raise LabError(f"{self.name} has ended:\n{tail(self.log)}")
        return found[0]

    def signal(self, number: int) -> None:
        """Sends a signal to it alone; nothing happens where it has ended."""
        if self.alive():
            with suppress(LabError, ProcessLookupError):
                os.kill(self.pid, number)

    def stop(self, seconds: float = 60) -> None:
        """Ends it: asked first, killed after this many seconds, which costs it what it had to save."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        if self._process is None:
            return
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self._process.wait(120)

    def wait_for(self, ready: Callable[[], bool], seconds: float = 120) -> None:
        """Waits until it is ready.

        Raises:
            LabError: it ended first, or took longer than this many seconds; with the end of its log.
        """
        until(lambda: ready() or not self.alive(), f"{self.name} ready", seconds, lambda: tail(self.log))
        if not self.alive():
            raise LabError(f"{self.name} ended at once:\n{tail(self.log)}")
