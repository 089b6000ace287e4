"""Which process is which: its id is not enough, as ids are given again."""

from __future__ import annotations

import os
from enum import Enum

from nemo_runspec.processes import machine, started
from nemo_runspec.records.lifecycle import Launcher


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
    return Launcher(pid, started(pid) or "", machine())


def is_alive(process: Launcher) -> bool | None:
    """True if it still runs; None where that cannot be known, as it belongs to another machine or container."""
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
        began = started(process.pid)
        alive = began is not None and (not process.started or began == process.started)
        return Life.ALIVE if alive else Life.DEAD
    boot, _, space = process.machine.partition(" ")
    own_boot, _, own_space = own.partition(" ")
    if not space or not own_space:
        return Life.OTHER_MACHINE
    if boot == own_boot:
        return Life.OTHER_CONTAINER
    return Life.RESTARTED if host == os.uname().nodename else Life.OTHER_MACHINE
