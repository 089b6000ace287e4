"""How other nodes reach this one."""

import os
import socket

MYPY = False
if MYPY:
    from typing import Iterator


def address() -> str:
    """An IPv4 address of this node that is not its own loopback, else its name."""
    name = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    return next((found for found in _addresses(name) if not found.startswith("127.")), name)


def free_port() -> int:
    """A port below the ephemeral range where nothing listens on this node."""
    port = 0
    for _ in range(50):
        port = 20000 + int.from_bytes(os.urandom(4), "big") % 12000
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                break
    return port


def _addresses(name: str) -> "Iterator[str]":
    try:
        for found in socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM):
            yield str(found[4][0])
    except OSError:
        pass
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: the kernel only chooses the interface
            yield str(probe.getsockname()[0])
        except OSError:
            return
