"""A connection that breaks: nothing half is believed, nothing hangs, and what is not known is said not to be."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from job_scripts import pause
from labs.sshd import master_of, needs_ssh, running
from waiting import line_of, until

from nemo_runspec.transport import connection, ssh, ssh_config
from nemo_runspec.transport.base import Broken, Unreachable
from nemo_runspec.transport.files import put, put_file
from nemo_runspec.transport.ssh import SshHost

pytestmark = needs_ssh


@pytest.fixture
def hasty(monkeypatch, patient):
    """What nemotron waits for before it gives a silent connection up, in little."""
    monkeypatch.setattr(ssh, "GREETING_S", 0.5)
    monkeypatch.setattr(ssh_config, "LOCAL_S", 0.5)


def test_a_server_that_is_gone_and_back(server, reach):
    host = reach()
    assert host.run("echo one").text == "one\n"
    server.stop()
    with pytest.raises(Unreachable) as caught:
        host.run("true")
    assert caught.value.transient
    assert not isinstance(caught.value, Broken)
    server.start()
    assert host.run("echo two").text == "two\n"


def test_a_connection_that_was_cut_in_between_is_made_again(server, reach):
    host = reach()
    for number in range(3):
        assert host.run(f"echo {number}").text == f"{number}\n"
        assert server.drop() > 0
    assert host.connections == 3


def test_a_connection_whose_keeper_was_killed_is_made_again(server, reach, sockets):
    host = reach()
    host.run("true")
    os.kill(master_of(sockets), signal.SIGKILL)
    assert host.run("echo on").text == "on\n"
    assert host.connections == 2


def test_a_socket_that_a_killed_keeper_left_does_not_stop_the_next_process(server, reach, sockets):
    config = server.client_config()
    reach(config=config).run("true")
    os.kill(master_of(sockets), signal.SIGKILL)
    assert reach(config=config).run("echo on").text == "on\n"


def test_a_keeper_that_hangs_is_left_alone(server, reach, sockets, hasty):
    config = server.client_config()
    host = reach(config=config)
    host.run("true")
    keeper = master_of(sockets)
    pause(keeper)
    try:
        assert host.run("echo on").text == "on\n"
        assert reach(config=config).run("echo on").text == "on\n"
    finally:
        os.kill(keeper, signal.SIGCONT)


def test_a_connection_that_a_firewall_forgot_is_made_again(server, reach, hasty):
    host = reach()
    host.run("true")
    frozen = server.freeze()
    server.thaw_daemon()
    assert frozen > 0
    assert host.run("echo on").text == "on\n"
    assert host.connections == 2


def test_a_server_that_hangs_is_told_in_time(server, reach, hasty):
    host = reach()
    host.run("true")
    server.freeze()
    with pytest.raises(Unreachable) as caught:
        host.run("true", timeout=2)
    assert not isinstance(caught.value, Broken), "it was never sent"
    server.thaw()
    assert host.run("echo on").text == "on\n"


def test_a_server_that_hangs_under_a_command_is_not_believed_to_have_done_nothing(server, reach, late):
    host = reach()
    with late(server.freeze) as data, pytest.raises(Broken, match="within 60 s; whether it has run is not known"):
        host.run("cat", data=data, timeout=60)
    server.thaw()


def test_a_connection_cut_under_a_command(server, reach, tmp_path):
    host = reach()
    with pytest.raises(Broken, match=r"lost under a command; whether it has run is not known"):
        host.run(f"touch {tmp_path}/begun; cat", data=after_one_block(server.drop, tmp_path / "begun"), timeout=300)
    assert host.run("echo on").text == "on\n"


def test_a_keeper_killed_under_a_command(server, reach, sockets):
    host = reach()
    with pytest.raises(Broken):
        host.run("cat", data=after_one_block(lambda: os.kill(master_of(sockets), signal.SIGKILL)))


def test_a_command_is_never_run_twice(server, reach, tmp_path):
    host = reach()
    for number in range(5):
        runs, begun = tmp_path / f"runs-{number}", tmp_path / f"begun-{number}"
        with pytest.raises(Broken):
            host.run(f"echo run >>{runs}; touch {begun}; cat", data=after_one_block(server.drop, begun))
        assert runs.read_text() == "run\n"


def test_output_so_far_is_no_answer(server, reach, tmp_path):
    with pytest.raises(Broken):
        reach().run(f"echo 0; touch {tmp_path}/begun; cat", data=after_one_block(server.drop, tmp_path / "begun"))


@pytest.mark.parametrize("before", [None, b"before"])
@pytest.mark.parametrize("cut", [0, 3, 11])
def test_a_large_file_is_whole_or_not_there(server, reach, tmp_path, cut, before):
    source, folder = tmp_path / "source", tmp_path / "far"
    folder.mkdir()
    there = folder / "file"
    if before is not None:
        there.write_bytes(before)
    source.write_bytes(os.urandom(3_000_000))
    host = reach()
    with pytest.raises(Broken):
        put_file(_Cut(host, server.drop, cut), source, str(there))
    until_over(server)
    assert list(folder.iterdir()) == ([there] if before is not None else []), "nothing half is left"
    assert (there.read_bytes() if there.exists() else None) == before
    assert put_file(host, source, str(there))
    assert there.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("cut", [0, 1, 5])
@pytest.mark.parametrize("new", [True, False])
def test_many_files_are_all_there_or_none(server, reach, tmp_path, cut, new):
    folder = tmp_path / "far" / "job"
    folder.parent.mkdir()
    if not new:
        folder.mkdir()
    # An archive that ends between two files is one that tar takes without a word.
    files = {f"{number}": (b"x" * (512 * 7), 0o600) for number in range(1000)}
    host = reach()
    with pytest.raises(Broken):
        put(_Cut(host, server.drop, cut), files, str(folder))
    until_over(server)
    assert list(folder.parent.rglob("*")) == ([] if new else [folder]), "nothing half is left"
    put(host, files, str(folder))
    assert len(list(folder.iterdir())) == 1000


def test_a_script_that_goes_on_ends_with_its_connection(server, reach):
    host = reach()
    process = host.start("echo $$; sleep 1000")
    pid = int(line_of(process.stdout))
    server.drop()
    assert process.wait(120) == 255
    until(lambda: not Path(f"/proc/{pid}").exists(), "its end there")


def test_many_threads_share_the_new_connection(server, reach):
    host = reach()
    host.run("true")
    server.drop()
    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(host.run("echo on").text)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["on\n"] * 20
    assert host.connections == 2


def test_a_thread_that_comes_late_with_a_broken_connection_does_not_end_the_new_one(server, sockets):
    shared = connection.Connection(connection.Address("cluster", config=server.client_config()), folder=sockets)
    soon = time.monotonic() + 60
    broken = shared.ready(soon)
    shared.drop(broken)
    made = shared.ready(soon)
    shared.drop(broken)
    assert shared.ready(soon).birth == made.birth != broken.birth
    assert shared.made == 2


def test_two_processes_make_one_connection(server, reach):
    config = server.client_config()
    hosts: list[SshHost] = [reach(config=config) for _ in range(6)]
    threads = [threading.Thread(target=host.run, args=("true",)) for host in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.accepted() == sum(host.connections for host in hosts) == 1


def until_over(server) -> None:
    """Until no script runs there: one whose connection was cut takes away what it had begun when it sees that."""
    until(lambda: running(f"HOME={server.home}"), "the end of what ran there", lambda found: not found)


def after_one_block(fault, begun: Path | None = None):
    """Data in the middle of which something happens, once a file is there that says that the script has begun."""
    yield b"x"
    if begun is not None:
        until(begun.exists, "the script's beginning")
    fault()
    yield b"y" * 5_000_000


class _Cut:
    """A machine whose connection breaks while data is sent to it, after some blocks of 64 KiB."""

    def __init__(self, host, fault, blocks):
        self._host = host
        self._fault = fault
        self._blocks = blocks
        self.name = host.name

    def run(self, script, *, data=b"", timeout=60.0):
        return self._host.run(script, data=self._cut(data) if data != b"" else data, timeout=timeout)

    def _cut(self, data):
        whole = [data] if isinstance(data, bytes) else data
        parts = (block[start : start + (1 << 16)] for block in whole for start in range(0, len(block), 1 << 16))
        for number, block in enumerate(parts):
            if number == self._blocks:
                self._fault()
            yield block
