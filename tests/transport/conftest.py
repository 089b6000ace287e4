"""Machines to reach: this one, and a real sshd on loopback."""

from __future__ import annotations

import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from labs.sshd import PlainSshd, needs_ssh, plain_sshd
from waiting import be_patient

from nemo_runspec.transport import ssh, subprocess_io
from nemo_runspec.transport.local import LocalHost
from nemo_runspec.transport.ssh import SshHost


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection is not taken for dead because this machine is busy: these tests count them."""
    be_patient(monkeypatch)


class Clock:
    """The clock by which a time limit is up when a test says so, not when a busy machine has lost that much time."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def sleep(self, seconds: float) -> None:
        """Nobody waits, and it is an hour later."""
        self.ahead += 3600.0


@pytest.fixture
def late() -> Callable[..., AbstractContextManager[Iterator[bytes]]]:
    """`with late(fault) as data`: data for a script. The time of whoever sends it is up in its middle, after a fault.

    It is asked for once the script was sent, however long that took.
    """

    @contextmanager
    def patched(fault: Callable[[], object] = int) -> Iterator[Iterator[bytes]]:
        clock = Clock()

        def blocks() -> Iterator[bytes]:
            yield b"x"
            fault()
            clock.sleep(0)
            yield b"y"

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(subprocess_io, "time", clock)
            yield blocks()

    return patched


@pytest.fixture
def impatient() -> Callable[[], AbstractContextManager[Clock]]:
    """`with impatient() as clock`: who has to wait before asking a machine again has no time left afterwards."""

    @contextmanager
    def patched() -> Iterator[Clock]:
        clock = Clock()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ssh, "time", clock)
            yield clock

    return patched


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of this machine where nobody listens, now or later: it is taken."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture
def server() -> Iterator[PlainSshd]:
    """A server of the test's own. When it stops, every connection to it ends, and with it the client's processes."""
    with plain_sshd() as made:
        yield made


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder for control sockets, with a short path."""
    folder = Path(tempfile.mkdtemp(prefix="nemo-sock-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)  # a connection that ends now takes its own socket away


@pytest.fixture
def reach(server: PlainSshd, sockets: Path) -> Callable[..., SshHost]:
    """`reach("alias", config=…)`: a host as nemotron sees it, that leads to the server."""

    def make(host: str = "cluster", config: Path | None = None, **values) -> SshHost:
        return SshHost(host, config=config or server.client_config(), folder=sockets, **values)

    return make


@pytest.fixture(params=["here", pytest.param("ssh", marks=needs_ssh)])
def host(request: pytest.FixtureRequest):
    """Both kinds of machine."""
    return LocalHost() if request.param == "here" else request.getfixturevalue("reach")()
