"""The processes of a job on this machine: started, told to stop, and none left behind."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from nemo_runspec.errors import UserError
from nemo_runspec.jobside.signals import HEARD

_PR_SET_PDEATHSIG = 1
_KERNEL = (2, 0)
"""Parent and session of the kernel's own threads, which have no environment."""
_LOOKS = 3
_SUPERVISED_BY = "NEMOTRON_PYTHON"
_MARK = "NEMOTRON_JOB_DIR"
"""The variable that marks all processes of a job; a job is meant by its directory, which no two share."""


def start(
    job_dir: str, command: Sequence[str], environment: Mapping[str, str], cwd: Path, *, stdin: int | None = None
) -> subprocess.Popen[bytes]:
    """Starts the script of a job in a session of its own, its output and errors in one pipe.

    On Linux it is sent TERM when this process dies, however it dies, and no signal is lost before its first line: it
    starts with those blocked that its supervisor takes. That one is run by this Python, where nothing else is asked
    for: only a supervisor can unblock them.

    Args:
        stdin: what its command reads; None for nothing.

    Raises:
        UserError: it cannot be started.
    """
    try:
        return subprocess.Popen(
            command,
            env={_SUPERVISED_BY: sys.executable, **environment, _MARK: job_dir},
            cwd=cwd,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
            preexec_fn=_prepare_for(os.getpid()),
        )
    except OSError as error:
        raise UserError(f"cannot start {command[0]}: {error.strerror}", remedy="is bash installed?") from None


def terminate(process: subprocess.Popen[bytes]) -> None:
    """TERM to the job script and what it runs in the foreground; it passes it on to its command, once."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)


def members(job_dir: str, session: int) -> set[int]:
    """The live processes of a job: of its session, marked with its directory, or descended from one of these.

    torchrun gives every rank a session of its own, so the job script's session alone is not all. Where there is no
    `/proc`, only the job script's process group is known and the set is empty.
    """
    table = _process_table()
    mark = f"{_MARK}={job_dir}".encode()
    found = {
        pid
        for pid, (parent, own) in table.items()
        if (own == session and session > 1) or ((parent, own) != _KERNEL and _is_marked(pid, mark))
    }
    while True:
        more = {pid for pid, (parent, _) in table.items() if parent in found and pid not in found}
        if not more:
            return found - {1, os.getpid()}
        found |= more


def kill_all(job_dir: str, session: int, *, seconds: float = 5.0) -> bool:
    """KILL to everything of a job, until nothing is left; False if something is still there after that time."""
    end = time.monotonic() + seconds
    while True:
        late = time.monotonic() > end  # before the look: on a busy machine one may take all of the time
        left = members(job_dir, session)
        _send(left, signal.SIGKILL)
        if not _proc_exists():
            _kill_group(session)
        if not left:
            return True
        if late:
            return False
        time.sleep(0.02)


def end_leftovers(job_dir: str, session: int, *, grace: float, tell: bool = True) -> int:
    """Ends what is left after the job script has ended: TERM, then KILL after `grace` seconds. Returns how many.

    Args:
        tell: False where TERM was sent already.
    """
    left = members(job_dir, session)
    if not left and _proc_exists():
        return 0
    if tell:
        _send(left, signal.SIGTERM)
    end = time.monotonic() + grace
    while members(job_dir, session) and time.monotonic() < end:
        time.sleep(0.05)
    kill_all(job_dir, session)
    return len(left)


def _prepare_for(parent: int) -> Callable[[], None] | None:
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)

    return prepare


def _process_table() -> dict[int, tuple[int, int]]:
    """Process id → (parent, session), zombies left out."""
    table = {}
    for entry in Path("/proc").glob("[0-9]*") if _proc_exists() else ():
        try:
            fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] not in ("Z", "X"):
            table[int(entry.name)] = (int(fields[1]), int(fields[3]))
    return table


def _is_marked(pid: int, mark: bytes) -> bool:
    """True if a process has this variable. While it is replaced by another program (exec), its environment is empty."""
    for _ in range(_LOOKS):
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False
        if environment:
            return mark in environment.split(b"\0")
        time.sleep(0.001)
    return False


def _send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _kill_group(session: int) -> None:
    if session <= 1:  # 0 would be this process's own group
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(session, signal.SIGKILL)


def _proc_exists() -> bool:
    return Path("/proc/self/stat").exists()
