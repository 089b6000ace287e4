"""A machine behind SSH, reached by the system's OpenSSH client over one connection for everything."""

from __future__ import annotations

import itertools
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from nemo_runspec import paths
from nemo_runspec.errors import Code, UserError
from nemo_runspec.polling import Backoff
from nemo_runspec.tracing import asked, programs_of
from nemo_runspec.transport.base import Data, Done, Unreachable
from nemo_runspec.transport.connection import Address, Connection, interactive
from nemo_runspec.transport.local import took_too_long
from nemo_runspec.transport.remote import Wrapping
from nemo_runspec.transport.session import Session, TooManySessions
from nemo_runspec.transport.subprocess_io import Late, blocks

AT_ONCE = 8
"""Commands of `run` at the same time. A server allows 10 sessions per connection unless MaxSessions says otherwise."""

GREETING_S = 15.0
"""How long a connection that was there before may take to greet before another is made."""

_HOST = re.compile(r"[\w.:@%\[\]][\w.:@%\[\]-]*")


class SshHost:
    """Runs scripts on a machine behind SSH. Safe between threads.

    A script is sent only once the other side has greeted, so that one that was never asked for has never run.

    Args:
        host: a name, an address, or an alias of `~/.ssh/config`.
        identity: a private key's file; `~` is the home directory.
        accept_new_host_key: an explicit wish to trust a host never seen; one whose key has changed is refused anyway.
        config: read instead of `~/.ssh/config`.
        linger: seconds an unused connection stays, for the next command, this process's or another's.
        folder: where its socket lies, if not in the usual place.

    Attributes:
        calls: round trips so far. connections: how many connections this object has made.

    Raises:
        UserError: values that cannot be an address; an identity that is not there.
    """

    def __init__(
        self,
        host: str,
        user: str | None = None,
        port: int | None = None,
        identity: str | None = None,
        accept_new_host_key: bool = False,
        *,
        config: Path | None = None,
        linger: int = 300,
        folder: Path | None = None,
    ) -> None:
        address = Address(
            _named(host, "host"), user and _named(user, "user"), port, _key(identity), accept_new_host_key, config
        )
        self.name = address.name
        self.key = f"ssh:{address.name}"
        self.calls = 0
        self._counting = threading.Lock()
        self._slots = threading.BoundedSemaphore(AT_ONCE)
        self._connection = Connection(address, linger, folder)

    @property
    def connections(self) -> int:
        """How many connections have been made by this object."""
        return self._connection.made

    def run(self, script: str, *, data: Data = b"", timeout: float = 60.0) -> Done:
        """As `Host.run`. A person's typing at a prompt of ssh does not count to `timeout`."""
        self._count()
        wrapping, deadline = Wrapping(), self._deadline(timeout)
        with (
            asked(f"ssh {self.name}", partial(programs_of, script)) as question,
            self._slot(deadline),
            closing(self._greeted(wrapping, deadline)) as session,
        ):
            head = wrapping.to_run(script)
            try:
                heard = session.exchange.finish(itertools.chain((head,), blocks(data)), deadline)
            except Late:
                raise took_too_long(self.name, timeout) from None
            told = wrapping.status(heard)
            if told is None:
                raise session.lost(self.name)
            question.answer = f"exit code {told[0]}"
            return Done(*told, session.errors(wrapping))

    def start(self, script: str) -> subprocess.Popen[bytes]:
        """As `Host.start`."""
        self._count()
        wrapping = Wrapping()
        session = self._greeted(wrapping, self._deadline(4 * GREETING_S))
        session.exchange.send(wrapping.to_start(script))
        return session.kept()

    def _count(self) -> None:
        with self._counting:
            self.calls += 1

    def close(self) -> None:
        """Gives the connection back: to ssh itself, which keeps it for `linger` seconds."""
        self._connection.close()

    def _deadline(self, timeout: float) -> float:
        if interactive():
            self._connection.ready(time.monotonic() + timeout)
        return time.monotonic() + timeout

    @contextmanager
    def _slot(self, deadline: float) -> Iterator[None]:
        if not self._slots.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise Unreachable(f"{self.name}: {AT_ONCE} other commands took all the time; this one was not sent")
        try:
            yield
        finally:
            self._slots.release()

    def _greeted(self, wrapping: Wrapping, deadline: float) -> Session:
        """A session that waits for its script. A connection that does not work is replaced once."""
        replaced, pauses = False, Backoff(0.05, 1.0, growth=2)
        while True:
            socket = self._connection.ready(deadline)
            last_try = replaced or socket.fresh
            session = Session(self._connection, socket, wrapping)
            trouble = session.handshake(self.name, wrapping, deadline, None if last_try else GREETING_S)
            if trouble is None:
                return session
            session.close()
            pause = pauses.pause()
            in_time = time.monotonic() + pause < deadline
            if isinstance(trouble, TooManySessions) and in_time:
                time.sleep(pause)
            elif (
                last_try or not in_time or isinstance(trouble, TooManySessions) or not isinstance(trouble, Unreachable)
            ):
                raise trouble
            else:
                self._connection.drop(socket)
                replaced = True


def _named(value: str, what: str) -> str:
    if not _HOST.fullmatch(value):
        raise UserError(
            f"{what} = '{value}' is no {what} that ssh could be given", remedy=f"correct the profile's {what}", key=what
        )
    return value


def _key(identity: str | None) -> Path | None:
    if not identity:
        return None
    path = paths.expanded(identity).absolute()
    if not path.is_file():
        raise UserError(
            f"identity = '{identity}': there is no such file on this machine",
            where=str(path),
            remedy="name a private key's file, such as ~/.ssh/id_ed25519, or leave identity out",
            code=Code.IDENTITY,
            key="identity",
        )
    return path
