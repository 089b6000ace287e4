"""The address by which other nodes reach this one."""

import _socket as socket  # without its package, which takes longer to import than all the rest
import os

MYPY = False
if MYPY:
    from typing import Iterator, List, Set


def address() -> str:
    """An IPv4 address of this node that is not its own loopback, else its name."""
    name = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    return next((found for found in _addresses(name) if not found.startswith("127.")), name)


def free_port() -> int:
    """A port below the ephemeral range where nothing listens on this node."""
    port = 0
    for _ in range(50):
        port = 20000 + int.from_bytes(os.urandom(4), "big") % 12000
        probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            if probe.connect_ex(("127.0.0.1", port)):
                break
        finally:
            probe.close()
    return port


def free_ports(count: int) -> "List[int]":
    """So many ports below the ephemeral range that nobody on this node has, on any of its addresses."""
    found: "Set[int]" = set()
    for _ in range(50 * count):
        if len(found) == count:
            break
        port = 20000 + int.from_bytes(os.urandom(4), "big") % 12000
        probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            probe.bind(("", port))
            found.add(port)
        except OSError:
            continue
        finally:
            probe.close()
    return sorted(found)


def is_free(port: int) -> bool:
    """True if nobody on this node listens at a port, on any of its addresses. Connections that ended do not count."""
    probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("", port))
    except OSError:
        return False
    finally:
        probe.close()
    return True


def _addresses(name: str) -> "Iterator[str]":
    try:
        for found in socket.getaddrinfo(os.fsencode(name), None, socket.AF_INET, socket.SOCK_STREAM):
            yield str(found[4][0])
    except OSError:
        pass
    probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        probe.connect(("192.0.2.1", 9))  # sends nothing: the kernel only chooses the interface
        yield str(probe.getsockname()[0])
    except OSError:
        return
    finally:
        probe.close()
