"""One SSH connection that commands share: made and kept by OpenSSH's client, checked and replaced here."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from nemo_runspec.transport import sockets
from nemo_runspec.transport.base import Unreachable
from nemo_runspec.transport.master import listen
from nemo_runspec.transport.ssh_config import Resolved, local, resolve
from nemo_runspec.transport.ssh_errors import FailedConnection, a_person_may_help, explain

CONNECT_S = 20.0
"""How long a connection may take without a person at the terminal."""

PATIENCE_S = 600.0
"""How long a person may take to type a password."""

_KEEP = {
    "ConnectTimeout": "15",
    "ServerAliveInterval": "10",
    "ServerAliveCountMax": "3",
}
_PLAIN = {
    # What a user's config may say for a terminal, which a command cannot have. Older clients do not know all of it.
    "IgnoreUnknown": "SessionType,StdinNull,ForkAfterAuthentication",
    "ClearAllForwardings": "yes",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "SessionType": "default",
    "StdinNull": "no",
    "ForkAfterAuthentication": "no",
}


@dataclass(frozen=True, slots=True)
class Address:
    """Whom to connect to, as ssh is told. What is None is left to `~/.ssh/config`.

    Args:
        config: instead of `~/.ssh/config`, for tests.
        accept_new_host_key: an explicit wish; a changed key is refused all the same.
    """

    host: str
    user: str | None = None
    port: int | None = None
    identity: Path | None = None
    accept_new_host_key: bool = False
    config: Path | None = None

    @property
    def name(self) -> str:
        """For a person."""
        user = f"{self.user}@" if self.user else ""
        port = f":{self.port}" if self.port else ""
        return f"{user}{self.host}{port}"

    def words(self) -> list[str]:
        """The options that lead there, without the host."""
        given: list[tuple[str, object]] = [("-F", self.config), ("-l", self.user), ("-p", self.port)]
        found = [word for option, value in given if value is not None for word in (option, str(value))]
        return found + (["-i", str(self.identity), "-o", "IdentitiesOnly=yes"] if self.identity else [])

    def resolved(self) -> Resolved:
        """Where it leads now: an alias can lead elsewhere tomorrow, or by another configuration."""
        return resolve(self.words(), self.host, self.config)

    def digest(self, resolved: Resolved) -> str:
        """A short name for the connection: two addresses that are written alike but lead elsewhere have two."""
        told = [os.fsencode(word) for word in (*self.words(), self.host)]
        return hashlib.sha256(b"\0".join([*told, *resolved.who])).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Socket:
    """A connection to be used.

    Args:
        birth: tells it from an older one at the same path.
        fresh: it was made for this very use.
        ours: it is not one of the user's own `ControlMaster`.
    """

    path: Path
    birth: tuple[int, int]
    fresh: bool = False
    ours: bool = True


def interactive() -> bool:
    """True where a person can be asked: there is a terminal on both sides of us."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


@dataclass
class Connection:
    """Finds, makes and replaces the connection to one address. Safe between threads and processes.

    It outlives this process by `linger` seconds without use, so that the next command need not connect again.

    Args:
        folder: for the sockets, if not the usual one.
        made: how many connections this object has made.
    """

    address: Address
    linger: int = 300
    folder: Path | None = None
    made: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _socket: Socket | None = None

    def ready(self, deadline: float) -> Socket:
        """The connection, made where there is none.

        Raises:
            Unreachable, UserError: as `Host.run`.
        """
        with self._lock:
            if self._socket is None:
                self._socket = self._find(deadline)
                return self._socket
            return replace(self._socket, fresh=False)

    def drop(self, used: Socket) -> None:
        """Gives up a connection that does not work. Commands of others that still run over it are not disturbed."""
        with self._lock:
            if self._socket is not None and self._socket.birth == used.birth:
                self._socket = None
                if used.ours:
                    self._retire(used)

    def command(self, socket: Socket, errors: Path, remote: str) -> list[str]:
        """The command line that runs something over the connection, and never over another one."""
        # Without its socket, ssh would connect by itself: the proxy that does not exist prevents that.
        options = {**_PLAIN, "ControlMaster": "no", "BatchMode": "yes", "LogLevel": "INFO", "ProxyCommand": "false"}
        words = ["ssh", "-T", "-e", "none", "-E", str(errors), "-S", str(socket.path), *_options(options)]
        return [*words, *self.address.words(), "--", self.address.host, remote]

    def _find(self, deadline: float) -> Socket:
        # Asked anew for each connection, which is once in most processes: the socket's name tells where it leads, and
        # the configuration may be another one by now.
        resolved = self.address.resolved()
        theirs = None if self.made else self._of_the_user(resolved)
        if theirs is not None:
            return Socket(theirs, _birth(theirs), ours=False)
        self.folder = self.folder or sockets.folder()
        path = self.folder / self.address.digest(resolved)
        waits = time.monotonic() + PATIENCE_S if interactive() else deadline
        with sockets.held(path.with_suffix(".lock"), waits) as held:
            if not held:
                raise Unreachable(f"another nemotron is still connecting to {self.address.name}")
            if self._answers(path):
                return Socket(path, _birth(path))
            path.unlink(missing_ok=True)
            self._make(path, deadline)
        self.made += 1
        return Socket(path, _birth(path), fresh=True)

    def _make(self, path: Path, deadline: float) -> None:
        """Without a terminal first: out of reach of its Ctrl-C, with all that belongs to the connection."""
        attempt = self._attempt(path, max(1.0, min(CONNECT_S, deadline - time.monotonic())), asking=False)
        if attempt is not None and interactive() and a_person_may_help(attempt):
            attempt = self._attempt(path, PATIENCE_S, asking=True)
        if attempt is not None:
            raise explain(attempt)

    def _attempt(self, path: Path, seconds: float, *, asking: bool) -> FailedConnection | None:
        """Connects; None where that worked."""
        code, log = listen(self._master_command(path, asking), seconds, show=asking)
        if code == 0:
            return None
        if code is None:
            log += f"\nConnection timed out: no answer within {seconds:.0f} s"
        by_hand = ["ssh", *self.address.words(), "--", self.address.host, "true"]
        return FailedConnection(self.address.name, log, by_hand, known=bool(self.made))

    def _master_command(self, path: Path, asking: bool) -> list[str]:
        # -v is for the error texts: ssh hides those of a jump host otherwise, and tells no fingerprint in batch mode.
        options = {**_PLAIN, **_KEEP, "ControlMaster": "yes", "ControlPersist": str(self.linger)}
        if not asking:
            options["BatchMode"] = "yes"
        if self.address.accept_new_host_key:
            options["StrictHostKeyChecking"] = "accept-new"
        words = ["ssh", "-v", "-M", "-N", "-f", "-T", "-x", "-S", str(path), *_options(options)]
        return [*words, *self.address.words(), "--", self.address.host]

    def _of_the_user(self, resolved: Resolved) -> Path | None:
        """The socket of a connection the user keeps open by a `ControlPath` of their own; with it, no one is asked."""
        path = resolved.control_path
        return path if path is not None and self._answers(path) else None

    def _answers(self, path: Path) -> bool:
        done = self._local("-S", str(path), "-O", "check") if path.exists() else None
        return done is not None and done.returncode == 0

    def _retire(self, used: Socket) -> None:
        """Takes its socket away, unless another process has put a new one there. What runs over it goes on."""
        if _birth(used.path) == used.birth:
            self._local("-S", str(used.path), "-O", "stop")
        if _birth(used.path) == used.birth:
            used.path.unlink(missing_ok=True)

    def _local(self, *words: str) -> subprocess.CompletedProcess[bytes] | None:
        """Asks ssh something that needs no network; None where it does not answer."""
        return local(["ssh", *words, *self.address.words(), "--", self.address.host])

    def close(self) -> None:
        """Without `linger` the connection ends as soon as nothing runs over it; else ssh itself ends it later."""
        with self._lock:
            used, self._socket = self._socket, None
            if used is not None and used.ours and self.linger == 0:
                self._retire(used)


def _birth(socket: Path) -> tuple[int, int]:
    try:
        status = socket.stat()
    except OSError:
        return (0, 0)
    return (status.st_ino, status.st_ctime_ns)


def _options(options: dict[str, str]) -> list[str]:
    return [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
