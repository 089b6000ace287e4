"""Which process is which: its id is not enough, as ids are given again."""

from __future__ import annotations

import os
import subprocess
from enum import Enum
from pathlib import Path

from nemo_runspec.jobs.record import Launcher


class Life(Enum):
    """What can be said of a process that was noted down."""

    ALIVE = "it runs"
    DEAD = "it is gone"
    RESTARTED = "the machine was restarted since"
    OTHER_CONTAINER = "it belongs to another container of this machine"
    OTHER_MACHINE = "it belongs to another machine"


def this_process() -> Launcher:
    """This process."""
    return process_of(os.getpid())


def process_of(pid: int) -> Launcher:
    """A process that is alive now."""
    return Launcher(pid, _started(pid) or "", machine())


def is_alive(process: Launcher) -> bool | None:
    """Whether it still runs; None where that cannot be known, as it belongs to another machine or container."""
    if process.machine != machine():
        return None
    return life_of(process, "") is Life.ALIVE


def life_of(process: Launcher, host: str) -> Life:
    """What has become of it.

    Args:
        host: the machine's name when the process was noted down. The same name with another boot id is a restart.
    """
    own = machine()
    if process.machine == own:
        started = _started(process.pid)
        alive = started is not None and (not process.started or started == process.started)
        return Life.ALIVE if alive else Life.DEAD
    boot, _, space = process.machine.partition(" ")
    own_boot, _, own_space = own.partition(" ")
    if not space or not own_space:
        return Life.OTHER_MACHINE
    if boot == own_boot:
        return Life.OTHER_CONTAINER
    return Life.RESTARTED if host == os.uname().nodename else Life.OTHER_MACHINE


def machine() -> str:
    """What a process id is valid in: host, boot and process namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return os.uname().nodename


def _started(pid: int) -> str | None:
    """When a process started, as the system says it (clock ticks since boot, or `ps`'s text); None: there is none."""
    if Path("/proc/self/stat").exists():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if fields[0] in ("Z", "X") else fields[19]
    try:
        done = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None
