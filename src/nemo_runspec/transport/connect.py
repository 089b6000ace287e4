"""The machine that a profile's jobs are submitted from. Each is connected to once per process."""

from __future__ import annotations

import atexit
import threading

from nemo_runspec.errors import UserError
from nemo_runspec.transport.base import Host
from nemo_runspec.transport.local import LocalHost
from nemo_runspec.transport.ssh import SshHost

_LOCK = threading.Lock()
_HOSTS: dict[tuple[object, ...], Host] = {}


def connect(
    tunnel: str = "local",
    *,
    host: str | None = None,
    user: str | None = None,
    port: int | None = None,
    identity: str | None = None,
    accept_new_host_key: bool = False,
) -> Host:
    """The machine. No connection is made yet: the first command does that.

    Args:
        tunnel: `local` or `ssh`. The others are the profile's keys, for ssh alone.

    Raises:
        UserError: ssh without a host, values ssh cannot be given, or an identity that is not there.
    """
    asked: tuple[object, ...] = ("local",)
    if tunnel == "ssh":
        asked = (host, user, port, identity, accept_new_host_key)
    with _LOCK:
        if not _HOSTS:
            atexit.register(close_all)
        if asked not in _HOSTS:
            _HOSTS[asked] = _ssh(host, user, port, identity, accept_new_host_key) if tunnel == "ssh" else LocalHost()
        return _HOSTS[asked]


def close_all() -> None:
    """Gives all connections back; `connect` makes new ones."""
    atexit.unregister(close_all)
    with _LOCK:
        hosts = list(_HOSTS.values())
        _HOSTS.clear()
    for host in hosts:
        host.close()


def _ssh(host: str | None, user: str | None, port: int | None, identity: str | None, accept_new: bool) -> Host:
    if not host:
        raise UserError('tunnel = "ssh" needs a host', remedy='add host = "login.cluster.example.com" to the profile')
    return SshHost(host, user, port, identity, accept_new)
