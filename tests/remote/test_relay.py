"""A port of this machine that leads to a server on a job's node's loopback, over the input and output of a command."""

from __future__ import annotations

import http.server
import socket
import sys
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from waiting import until

from nemo_runspec.errors import UserError
from nemo_runspec.remote.relay import Relay, listening
from nemo_runspec.script.programs import SUPERVISOR, program_text
from nemo_runspec.transport.duplex import CommandDuplex

BODY = bytes(range(256)) * 4096


class Answers(http.server.BaseHTTPRequestHandler):
    """A megabyte, or what it was sent."""

    def do_GET(self) -> None:
        self._answer(BODY)

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found.server_address[1]
        found.shutdown()


@contextmanager
def led(folder: Path, port: int, token: str = "") -> Iterator[tuple[Relay, int]]:
    """A relay whose other end is the supervisor, after some words of a shell's; the port here."""
    program = folder / SUPERVISOR
    program.write_text(program_text(SUPERVISOR))
    words = [sys.executable, "-I", "-S", str(program), "relay", str(port), token]
    relay = Relay(CommandDuplex(["bash", "-c", 'echo "Last login: today"; exec "$@"', "bash", *words]))
    with closing(relay), listening(0) as listener:
        serving = threading.Thread(target=relay.serve, args=(listener,))
        serving.start()
        yield relay, listener.getsockname()[1]
        relay.close()
        serving.join(120)


def test_many_connections_at_once_bring_every_byte(server, tmp_path):
    with led(tmp_path, server) as (relay, port), ThreadPoolExecutor(8) as pool:
        url = f"http://127.0.0.1:{port}/"
        got = pool.map(lambda _: urllib.request.urlopen(url, timeout=120).read() == BODY, range(8))
        assert all(got)
        assert urllib.request.urlopen(url, data=BODY, timeout=120).read() == BODY
        assert relay.secret == b""


def test_who_has_said_all_still_hears_the_answer(server, tmp_path):
    with led(tmp_path, server) as (_, port), socket.create_connection(("127.0.0.1", port), 120) as end:
        end.sendall(b"GET / HTTP/1.0\r\n\r\n")
        end.shutdown(socket.SHUT_WR)
        assert b"".join(iter(lambda: end.recv(65536), b"")).endswith(BODY)


def test_the_secret_comes_and_a_port_where_nobody_listens_closes(tmp_path):
    (tmp_path / "token").write_text("0123abcd")
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # and does not listen
        with led(tmp_path, held.getsockname()[1], str(tmp_path / "token")) as (relay, port):
            assert relay.secret == b"0123abcd"
            for _ in range(2):
                with socket.create_connection(("127.0.0.1", port), 120) as end, suppress(ConnectionResetError):
                    assert end.recv(1) == b""
            assert until(lambda: not relay.connections, "their end")


def test_the_end_of_the_command_ends_it():
    ends = CommandDuplex(["bash", "-c", "echo nemotron-relay -; read line; exit 3"])
    with closing(Relay(ends)) as relay, listening(0) as listener:
        serving = threading.Thread(target=relay.serve, args=(listener,))
        serving.start()
        with socket.create_connection(listener.getsockname(), 120):
            serving.join(120)
        assert not serving.is_alive()


def test_a_node_that_is_not_reached_says_why():
    with pytest.raises(UserError, match="cannot be reached: srun: error: gone"):
        Relay(CommandDuplex(["bash", "-c", "echo welcome; echo 'srun: error: gone' >&2; exit 1"]))


def test_a_port_that_is_taken_here_is_another():
    with listening(0) as first, listening(first.getsockname()[1]) as second:
        assert first.getsockname() != second.getsockname()
