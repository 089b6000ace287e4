"""TCP ports for what is started later, or again."""

from __future__ import annotations

import random
import socket
from contextlib import suppress
from pathlib import Path

# A job that nobody gave a port takes one from 20000 to 31999 that nobody listens on (`nemotron_free_port` in
# src/nemo_runspec/jobside/address.py): it knows of no claim here, and would take one between a server's two lives.
_FIRST, _LAST = 12_000, 19_999
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_TAKEN: list[socket.socket] = []


def free_port() -> int:
    """A TCP port that nobody listens on, and that nobody is given until this process ends.

    It is none of those that the kernel gives to connections: one of these may be taken by anybody's request at the very
    moment when a server wants it, or wants it again. What keeps other processes off is an abstract socket of this name.
    """
    given = int(_RANGE.read_text().split()[0])
    last = min(_LAST, given - 1) if given > _FIRST else _LAST
    for port in random.SystemRandom().sample(range(_FIRST, last + 1), last + 1 - _FIRST):
        claim = socket.socket(socket.AF_UNIX)
        with suppress(OSError), socket.socket() as probe:
            claim.bind(f"\0nemotron-tests-port-{port}")
            probe.bind(("", port))
            _TAKEN.append(claim)
            return port
        claim.close()
    raise RuntimeError(f"no free port from {_FIRST} to {last}")
