"""With a terminal, ssh itself asks; its Ctrl-C is for nemotron alone."""

from __future__ import annotations

import os
import pty
import sys
import time

import pytest
from labs.slurm.process import until
from labs.sshd import needs_ssh

pytestmark = needs_ssh

ASKED = b"Are you sure you want to continue connecting"

CHILD = """\
import signal, sys
from pathlib import Path
from nemo_runspec.errors import UserError
from nemo_runspec.transport.ssh import SshHost
signal.signal(signal.SIGINT, lambda *_: None)
host = SshHost("cluster", config=Path(sys.argv[1]), folder=Path(sys.argv[2]))
try:
    follower = host.start("echo up; sleep 1000")
    print(follower.stdout.readline().decode().strip(), flush=True)
    done = host.run("echo $((40 + 2)); sleep 2; echo $((50 + 3))", timeout=60)
    print("answer", done.code, done.text.split(), "connections", host.connections, follower.poll(), flush=True)
    follower.kill()
except UserError as error:
    print("refused:", error.what, flush=True)
"""


@pytest.fixture
def terminal(server, sockets):
    """A process with a terminal of its own, and that terminal. Its way leads over a jump host."""
    config = server.client_config("Host cluster\n  ProxyJump gate\nHost gate\n  HostName 127.0.0.1\n")
    pid, descriptor = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-c", CHILD, str(config), str(sockets)], dict(os.environ))
    yield descriptor
    os.close(descriptor)
    os.waitpid(pid, 0)


@pytest.fixture
def stranger(server):
    server.known_hosts.unlink()


def read_until(descriptor: int, words: bytes) -> bytes:
    heard, end = b"", time.monotonic() + 60
    while words not in heard:
        assert time.monotonic() < end, heard
        try:
            heard += os.read(descriptor, 4096)
        except OSError:
            break
    assert words in heard, heard
    return heard


def test_an_unknown_host_is_asked_about(stranger, server, terminal):
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


def test_ctrl_c_ends_neither_a_command_nor_the_connection(server, terminal):
    read_until(terminal, b"up")
    until(lambda: server.sessions() == 2, "the command runs", 20)
    os.write(terminal, b"\x03")
    assert b"answer 0 ['42', '53'] connections 1 None" in read_until(terminal, b"None")
