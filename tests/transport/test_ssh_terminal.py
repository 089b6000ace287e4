"""With a terminal, ssh itself asks; its Ctrl-C is for nemotron alone."""

from __future__ import annotations

import os
import pty
import select
import sys

import pytest
from labs.sshd import needs_ssh
from waiting import LONG, until

pytestmark = needs_ssh

ASKED = b"Are you sure you want to continue connecting"

CHILD = """\
import os, signal, sys
from pathlib import Path
from nemo_runspec.errors import UserError
from nemo_runspec.transport.ssh import SshHost
signal.signal(signal.SIGINT, lambda *_: os.write(1, b"interrupted\\n"))
host = SshHost("cluster", config=Path(sys.argv[1]), folder=Path(sys.argv[2]))
try:
    follower = host.start("echo up; sleep 1000")
    print(follower.stdout.readline().decode().strip(), flush=True)
    gate = f"until [ -e '{sys.argv[3]}' ]; do sleep 0.1; done"
    done = host.run(f"echo $((40 + 2)); {gate}; echo $((50 + 3))", timeout=300)
    print("answer", done.code, done.text.split(), "connections", host.connections, follower.poll(), flush=True)
    follower.kill()
except UserError as error:
    print("refused:", error.what, flush=True)
"""


@pytest.fixture
def gate(tmp_path):
    """The command goes on once this file is there."""
    return tmp_path / "gate"


@pytest.fixture
def terminal(server, sockets, gate):
    """A process with a terminal of its own, and that terminal. Its way leads over a jump host."""
    config = server.client_config("Host cluster\n  ProxyJump gate\nHost gate\n  HostName 127.0.0.1\n")
    pid, descriptor = pty.fork()
    if pid == 0:
        words = [sys.executable, "-c", CHILD, str(config), str(sockets), str(gate)]
        os.execve(sys.executable, words, dict(os.environ))
    yield descriptor
    os.close(descriptor)
    os.waitpid(pid, 0)


@pytest.fixture
def stranger(server):
    server.known_hosts.unlink()


def read_until(descriptor: int, words: bytes) -> bytes:
    heard = b""
    while words not in heard:
        assert select.select([descriptor], [], [], LONG)[0], heard
        try:
            heard += os.read(descriptor, 4096)
        except OSError:
            break
    assert words in heard, heard
    return heard


def test_an_unknown_host_is_asked_about(stranger, server, terminal, gate):
    gate.touch()
    heard = read_until(terminal, ASKED)
    assert b"SHA256:" in heard
    assert b"debug1" not in heard
    os.write(terminal, b"yes\n")
    assert b"answer 0" in read_until(terminal, b"answer 0")
    assert str(server.port) in server.known_hosts.read_text()


def test_a_host_the_person_does_not_trust(stranger, server, terminal):
    read_until(terminal, ASKED)
    os.write(terminal, b"no\n")
    read_until(terminal, b"is not known here")
    assert server.accepted() == 0


def test_ctrl_c_ends_neither_a_command_nor_the_connection(server, terminal, gate):
    read_until(terminal, b"up")
    until(lambda: server.sessions() == 2, "the command")
    os.write(terminal, b"\x03")
    read_until(terminal, b"interrupted")
    gate.touch()
    assert b"answer 0 ['42', '53'] connections 1 None" in read_until(terminal, b"None")
