"""One connection for everything: settings of the user's honoured, any login shell, nothing secret in sight."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import threading

import pytest
from labs.sshd import needs_ssh, plain_sshd, running
from waiting import line_of, until

from nemo_runspec.errors import UserError
from nemo_runspec.transport import ssh
from nemo_runspec.transport.base import Unreachable
from nemo_runspec.transport.files import put, put_file
from nemo_runspec.transport.ssh import SshHost

pytestmark = needs_ssh


def test_commands_share_one_connection(server, reach, tmp_path):
    host = reach()
    (tmp_path / "large").write_bytes(b"x" * 300_000)
    for _ in range(5):
        host.run("true")
    put(host, {"a": (b"a", 0o600)}, str(tmp_path / "job"))
    put_file(host, tmp_path / "large", str(tmp_path / "far"))
    host.start("true").wait()
    assert (host.calls, server.sessions()) == (9, 9)
    assert (host.connections, server.accepted()) == (1, 1)


def test_another_process_uses_the_same_connection(server, reach):
    config = server.client_config()
    first, second = reach(config=config), reach(config=config)
    first.run("true")
    second.run("true")
    first.close()
    assert second.run("echo on").text == "on\n"
    assert (second.connections, server.accepted()) == (0, 1)


def test_a_connection_that_shall_not_linger_ends_when_it_is_given_back(server, reach, sockets):
    host = reach(linger=0)
    follower = host.start("echo up; sleep 60")
    assert line_of(follower.stdout) == b"up\n"
    host.close()
    assert not [path for path in sockets.iterdir() if path.is_socket()]
    assert follower.poll() is None, "what still runs over it is not disturbed"
    follower.kill()
    follower.wait()
    until(lambda: not running(str(sockets)), "the end of the client's process")


def test_fifty_commands_wait_their_turn(server, reach):
    host = reach()
    answers = in_threads(50, lambda number: host.run(f"sleep 0.02; echo {number}", timeout=300).text)
    assert answers == [f"{number}\n" for number in range(50)]
    assert server.accepted() == 1


@pytest.mark.parametrize("sessions", [1, 2])
def test_a_server_that_allows_few_sessions_makes_them_wait(sockets, sessions):
    with plain_sshd(more=f"MaxSessions {sessions}") as server:
        host = SshHost("cluster", config=server.client_config(), folder=sockets)
        answers = in_threads(8, lambda number: host.run(f"sleep 0.02; echo {number}", timeout=300).text)
        assert answers == [f"{number}\n" for number in range(8)]
        assert server.accepted() == 1


def test_sessions_that_are_all_taken_are_told(sockets, impatient):
    """Once it has asked again, and the time is up."""
    with plain_sshd(more="MaxSessions 1") as server:
        host = SshHost("cluster", config=server.client_config(), folder=sockets)
        follower = host.start("echo up; sleep 60")
        assert line_of(follower.stdout) == b"up\n"
        with impatient() as clock, pytest.raises(Unreachable, match=r"allows no further session .* nothing was run"):
            host.run("true")
        assert clock.ahead > 0, "it was asked again"
        follower.kill()
        follower.wait()
        assert host.run("echo free").text == "free\n"


def test_an_alias_behind_a_jump_host(server, reach):
    config = server.client_config("Host cluster\n  ProxyJump gate\nHost gate\n  HostName 127.0.0.1\n")
    assert reach(config=config).run("echo there").text == "there\n"
    assert server.accepted() == 2


def test_host_user_port_and_identity_of_a_profile(server, sockets, tmp_path):
    config = tmp_path / "config"
    config.write_text(f"Host *\n  UserKnownHostsFile {server.known_hosts}\n")
    host = SshHost("127.0.0.1", "root", server.port, str(server.identity), config=config, folder=sockets)
    assert host.run("id -un").text == "root\n"


def test_settings_for_terminals_do_not_disturb(server, reach):
    for_people = (
        "Host *\n  RequestTTY force\n  RemoteCommand echo never; exit 1\n  LocalForward 127.0.0.1:1 127.0.0.1:2\n"
        "  ExitOnForwardFailure yes\n  PermitLocalCommand yes\n  LocalCommand echo never\n  LogLevel QUIET\n"
        "  ControlMaster auto\n  ControlPersist no\n  StdinNull yes\n"
    )
    assert reach(config=server.client_config(for_people)).run("cat", data=b"clean\n").out == b"clean\n"


def test_a_connection_the_user_keeps_open_is_used_and_left_open(server, reach, sockets):
    config = server.client_config(f"Host *\n  ControlPath {sockets}/own-%p\n")
    base = ["ssh", "-F", str(config)]
    subprocess.run([*base, "-M", "-N", "-f", "cluster"], check=True, stderr=subprocess.DEVNULL)
    host = reach(config=config, linger=0)
    assert host.run("echo theirs").text == "theirs\n"
    host.close()
    assert server.accepted() == 1
    subprocess.run([*base, "-O", "check", "cluster"], check=True, capture_output=True)
    subprocess.run([*base, "-O", "exit", "cluster"], check=True, capture_output=True)
    assert host.run("echo ours").text == "ours\n"


@pytest.mark.parametrize("shell", ["bash", "dash", "tcsh", "fish"])
def test_any_login_shell_will_do(sockets, tmp_path, shell):
    program = shutil.which(shell)
    assert program, f"{shell} is not installed: .ci/lab-ssh"
    with plain_sshd(shell=program) as server:
        host = SshHost("cluster", config=server.client_config(), folder=sockets)
        script = "printf '%s|' \"$BASH\" 'it'\\''s' \"!! \\\\ \\$\"; cat; echo end >&2; exit 255"
        done = host.run(script, data=b"a\0b\n")
        assert done.out.partition(b"|")[2] == b"it's|!! \\ $|a\0b\n"
        assert (done.code, done.err) == (255, b"end\n")
        put(host, {"a b": (b"1", 0o600)}, str(tmp_path / "job"))
        assert (tmp_path / "job" / "a b").read_bytes() == b"1"
        follower = host.start("echo up; sleep 60")
        assert line_of(follower.stdout) == b"up\n"
        follower.kill()


def test_words_of_login_scripts_are_not_output(server, reach):
    (server.home / ".bashrc").write_text("echo welcome; echo careful >&2\n")
    done = reach().run("echo out; echo err >&2")
    assert (done.out, done.err) == (b"out\n", b"err\n")
    assert reach().start("echo out").stdout.read() == b"out\n"


def test_an_account_that_may_run_nothing_is_told(sockets):
    with plain_sshd(shell="/usr/sbin/nologin") as server:
        with pytest.raises(UserError, match=r"runs no commands: .*not available") as caught:
            SshHost("cluster", config=server.client_config(), folder=sockets).run("true")
        assert not isinstance(caught.value, Unreachable)
        assert server.accepted() == 1


def test_a_machine_without_bash_is_told(sockets, tmp_path):
    only = tmp_path / "bin"
    only.mkdir()
    (only / "sh").symlink_to(shutil.which("dash"))
    with plain_sshd(more=f"SetEnv PATH={only}", shell="/usr/bin/dash") as server:
        host = SshHost("cluster", config=server.client_config(), folder=sockets)
        with pytest.raises(UserError, match="there is no bash on cluster"):
            host.run("true")


def test_data_is_in_no_command_line_and_no_environment(reach, tmp_path, monkeypatch):
    secret = f"canary-{secrets.token_hex(8)}"
    host = reach()
    found: dict[str, list[int]] = {}

    def look(name: str) -> None:
        found[name] = running(secret)

    def slowly():
        yield secret.encode()
        look("data")

    host.run("cat >/dev/null", data=slowly())
    source = tmp_path / "secret"
    source.write_text(secret)
    put(host, {"secrets": (secret.encode(), 0o600)}, str(tmp_path / "job"))
    put_file(host, source, str(tmp_path / "far"))
    follower = host.start(f"cat {tmp_path}/far; sleep 60")
    assert follower.stdout.read(len(secret)) == secret.encode()
    look("follower")
    host.run(f": {secret}; exec 3<&0; sleep 0.1", data=b"")
    look("script")
    follower.kill()
    assert found == {"data": [], "follower": [], "script": []}
    visible = host.start(f"exec env CANARY={secret} sleep 60")
    until(lambda: running(secret), "what the check is to see")
    visible.kill()


def test_the_socket_lies_where_nobody_else_may_look(monkeypatch, tmp_path):
    from nemo_runspec.transport import sockets

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path)[:50] if len(str(tmp_path)) > 50 else str(tmp_path))
    folder = sockets.folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(str(folder)) + 1 + 16 + 17 < 104
    open_to_all = tmp_path / "nemotron"
    shutil.rmtree(open_to_all, ignore_errors=True)
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    assert sockets.folder() != open_to_all


def test_the_limit_leaves_sessions_for_followers():
    assert ssh.AT_ONCE < 10


def in_threads(count, call):
    answers = [None] * count

    def one(number):
        answers[number] = call(number)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers
