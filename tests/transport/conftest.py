"""Machines to reach: this one, and a real sshd on loopback."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from labs.sshd import PlainSshd, needs_ssh, plain_sshd

from nemo_runspec.transport.here import LocalHost
from nemo_runspec.transport.ssh import SshHost


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
    shutil.rmtree(folder)


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
