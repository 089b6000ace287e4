"""Processes of a job: started in a group of their own, waited for, looked up in /proc."""

import errno
import os
import time

from nemo_runspec.jobside import signals

MYPY = False
if MYPY:
    from typing import Dict, Iterator, List, Optional, Sequence, Tuple


_CHILDREN: "Dict[int, Child]" = {}
"""Those that were started here and whose end nobody has asked for yet."""


class Child:
    """A process that was started here; it leads a process group of its own.

    Args:
        pid: its process id, which is the group's too.
        words: what it was started with.
        status: as `os.waitpid` has it; None while it runs or nobody has asked.
    """

    def __init__(self, pid: int, words: "Sequence[str]" = ()) -> None:
        self.pid = pid
        self.words = list(words)
        _CHILDREN[pid] = self
        self.status: "Optional[int]" = None

    def has_ended(self) -> bool:
        """True if it has ended; asks the kernel."""
        if self.status is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # somebody else has read it: nothing can be known any more
                pid, status = self.pid, 127 << 8
            if pid:
                self.status = status
                _CHILDREN.pop(pid, None)
        return self.status is not None

    @property
    def signal(self) -> "Optional[int]":
        """The number of the signal that ended it, None for none."""
        status = self.status or 0
        return os.WTERMSIG(status) if os.WIFSIGNALED(status) else None

    @property
    def exit_code(self) -> int:
        """Its exit status, 128 + N after signal N as shells have it; 0 while it runs."""
        return signals.exit_code(self.signal) if self.signal else os.WEXITSTATUS(self.status or 0)

    def send(self, number: int) -> None:
        """Sends a signal to its process group; none once it has ended, as the number may be another's by then."""
        if self.status is None:
            send_group(self.pid, number)


def start(
    words: "Sequence[str]",
    environment: "Dict[str, str]",
    fds: "Dict[int, int]" = {},  # noqa: B006
    ignored: "Sequence[int]" = (),
    alone: bool = True,
    blocked: "Sequence[int]" = (),
    session: bool = False,
) -> Child:
    """Starts a program in a process group of its own, with an empty signal mask and default handlers.

    Args:
        words: the program, looked for on the `PATH` of `environment`, and its arguments.
        fds: number in the program -> number here, of files that it gets. Its input is empty unless it is among them.
        ignored: signals that it, and what it starts, does not hear.
        alone: False for one in this process's group.
        blocked: signals that it takes itself, see `signals.unblock_for_exec`.
        session: True for one that leads a session of its own, too.

    Raises:
        OSError: it cannot be started.
    """
    report, done = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(words, environment, fds, done, ignored, blocked, alone, session)
    os.close(done)
    try:
        failed = os.read(report, 16)
    finally:
        os.close(report)
    if failed:
        os.waitpid(pid, 0)
        number = int(failed)
        raise OSError(number, os.strerror(number), words[0])
    return Child(pid, words)


LATE = 124
"""The exit code of a command that has not ended in time, as `timeout(1)` says it."""


def run(words: "Sequence[str]", environment: "Dict[str, str]", seconds: float) -> "Tuple[int, str]":
    """A command's exit code and output; `LATE` where it has not ended in time, and is killed.

    It hears no signal: a platform sends TERM to every process of a job that it ends, perhaps twice: that would end the
    very command that says or does what the first one led to.
    """
    source, target = os.pipe()
    try:
        child = start(words, environment, {1: target}, ignored=signals.HEARD)
    except OSError:
        return 127, ""
    finally:
        os.close(target)
    try:
        said = read_all(source, time.monotonic() + seconds)
    finally:
        os.close(source)
    until = time.monotonic() + (0.2 if said is None else seconds)
    while not child.has_ended() and time.monotonic() < until:
        time.sleep(0.01)
    if not child.has_ended():
        end_tree(child.pid)
        os.waitpid(child.pid, 0)
        return LATE, ""
    return child.exit_code, (said or b"").decode("utf-8", "replace")


def read_all(source: int, until: float) -> "Optional[bytes]":
    """All that comes until its end, None where that has not come in time."""
    import select

    chunks: "List[bytes]" = []
    while True:
        if not select.select([source], [], [], max(0.0, until - time.monotonic()))[0]:
            return None
        chunk = os.read(source, 1 << 16)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)


def _become(
    words: "Sequence[str]",
    environment: "Dict[str, str]",
    fds: "Dict[int, int]",
    done: int,
    ignored: "Sequence[int]",
    blocked: "Sequence[int]",
    alone: bool,
    session: bool,
) -> None:
    """The child's part. It says why it could not, and never returns."""
    try:
        if session:
            os.setsid()
        elif alone:
            os.setpgid(0, 0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        # First out of the way of each other: a number may be both one here and another's in the program.
        held = {number: os.dup(here) for number, here in {0: nothing, **fds}.items()}
        high = max(held) + 1
        kept = {}
        for number, copy in held.items():
            while copy < high:
                copy = os.dup(copy)
            kept[number] = copy
        while done < high:
            done = os.dup(done)
        for number, copy in kept.items():
            os.dup2(copy, number)  # inheritable, as os.dup's is not
        signals.unblock_for_exec(ignored, blocked)
        given = {_encoded(name): _encoded(value) for name, value in environment.items()}
        os.write(done, b"%d" % _exec([_encoded(word) for word in words], given))
    except OSError as error:
        os.write(done, b"%d" % (error.errno or errno.EIO))
    except ValueError:  # a NUL byte
        os.write(done, b"%d" % errno.EINVAL)
    finally:
        os._exit(127)


def _exec(words: "List[bytes]", environment: "Dict[bytes, bytes]") -> int:
    """As `os.execvpe`, which imports a module for it that nobody needs here; why it could not, as errno has it."""
    found = errno.ENOENT
    folders = [b""] if b"/" in words[0] else environment.get(b"PATH", os.fsencode(os.defpath)).split(b":")
    for folder in folders:
        try:
            os.execve(os.path.join(folder, words[0]), words, environment)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                found = error.errno or errno.EIO
    return found


def _encoded(text: str) -> bytes:
    """As it came here, and UTF-8 in any locale: without one, Python 3.6 writes ASCII alone."""
    return text.encode("utf-8", "surrogateescape")


def reap() -> None:
    """Takes the ends of all processes that have ended: a `Child` keeps its own; orphans, which process 1 gets, go."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None:
            return
        child = _CHILDREN.get(found.si_pid)
        if child is None:
            os.waitpid(found.si_pid, 0)
        else:
            child.has_ended()


def send_group(group: int, number: int) -> bool:
    """Sends a signal to a process group; whether there was one to send it to."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def send(pid: int, number: int) -> bool:
    """Sends a signal to a process; whether there was one to send it to."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def stat_of(pid: int) -> "Optional[List[str]]":
    """State, parent, group, session and so on of a process (man 5 proc, from the third field on), None without it."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            return file.read().decode("latin-1").rpartition(")")[2].split()
    except (OSError, ValueError):
        return None


def started(pid: int) -> str:
    """What tells a process from an earlier one of the same number: when it was started; '' where it is not there."""
    fields = stat_of(pid)
    return fields[19] if fields and len(fields) > 19 else ""


def ticks() -> int:
    """Now, as `started` has it: clock ticks since the machine's start."""
    with open("/proc/uptime", "rb") as file:
        return int(float(file.read().split()[0]) * os.sysconf("SC_CLK_TCK"))


def words_of(pid: int) -> "List[str]":
    """The program and arguments of a process; none where it is not there, or is just becoming another program."""
    return _listed(pid, "cmdline")


def environment_of(pid: int) -> "Dict[str, str]":
    """The variables that a process was started with; none where it is gone or another user's."""
    return dict(word.split("=", 1) for word in _listed(pid, "environ") if "=" in word)


def _listed(pid: int, name: str) -> "List[str]":
    """What one of a process's files of words holds (man 5 proc); nothing where it cannot be read."""
    try:
        with open("/proc/%d/%s" % (pid, name), "rb") as file:
            return os.fsdecode(file.read()).split("\0")[:-1]
    except OSError:
        return []


def heeds(pid: int, number: int) -> bool:
    """True if a process catches, blocks or ignores a signal (man 5 proc: SigBlk, SigIgn, SigCgt)."""
    try:
        with open("/proc/%d/status" % pid, "rb") as lines:
            masks = [line.split()[1] for line in lines if line.startswith((b"SigBlk:", b"SigIgn:", b"SigCgt:"))]
    except (OSError, IndexError):
        return False
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)


def table() -> "Dict[int, Tuple[int, int]]":
    """Process id -> (parent, process group) of every process that lives here."""
    found = {}
    for pid in _pids():
        fields = stat_of(pid)
        if fields and fields[0] not in ("Z", "X"):
            found[pid] = (int(fields[1]), int(fields[2]))
    return found


def tree(group: int) -> "List[int]":
    """The processes of a group and those that descend from them, in sessions of their own too."""
    known = table()
    found = {pid for pid, (_, own) in known.items() if own == group}
    more = found
    while more:
        more = {pid for pid, (parent, _) in known.items() if parent in found and pid not in found}
        found |= more
    return sorted(found)


def end_tree(group: int) -> None:
    """KILL to all of `tree`."""
    for pid in tree(group):
        send(pid, signals.KILL)


def _pids() -> "Iterator[int]":
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if name.isdigit():
            yield int(name)


def wake() -> None:
    """Has `signals.wait` return in the main thread."""
    os.kill(os.getpid(), signals.CHLD)
