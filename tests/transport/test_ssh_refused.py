"""No connection: each reason in plain words, with a mend, told apart from the others."""

from __future__ import annotations

import socket
import subprocess
import threading

import pytest
from labs.sshd import needs_ssh, plain_sshd

from nemo_runspec.errors import UserError
from nemo_runspec.transport.base import Broken, Unreachable
from nemo_runspec.transport.ssh import SshHost

pytestmark = needs_ssh


def refusal(host: SshHost, **options) -> UserError:
    with pytest.raises(UserError) as caught:
        host.run("true", **options)
    assert "Traceback" not in str(caught.value)
    assert "debug1" not in str(caught.value)
    assert not isinstance(caught.value, Broken)
    assert caught.value.remedy
    return caught.value


def fingerprint(server) -> str:
    said = subprocess.run(["ssh-keygen", "-lf", f"{server.folder}/host_key.pub"], capture_output=True, text=True)
    return said.stdout.split()[1]


def test_a_name_that_nobody_knows(reach, server):
    error = refusal(reach(config=server.client_config("Host *\n  HostName no-such-host.invalid\n")))
    assert isinstance(error, Unreachable)
    assert "Could not resolve hostname no-such-host.invalid" in error.what
    assert "check the profile's host" in error.remedy


def test_nothing_listens(reach, closed_port):
    error = refusal(reach(port=closed_port))
    assert isinstance(error, Unreachable)
    assert error.transient
    assert "refused the connection" in error.what


def test_nobody_answers(reach, server):
    server.freeze()
    error = refusal(reach(), timeout=2)
    assert isinstance(error, Unreachable)
    assert error.transient
    assert "did not answer" in error.what


def test_a_key_that_is_not_let_in(reach, server, tmp_path):
    key = tmp_path / "other_key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    config = server.client_config()
    config.write_text(config.read_text().replace(str(server.identity), str(key)))
    error = refusal(reach(config=config, identity=str(key)))
    assert not isinstance(error, Unreachable)
    assert "Permission denied (publickey)" in error.what
    assert f"tried {key} ED25519 SHA256:" in error.where
    assert "identity" in error.remedy


def test_a_key_others_can_read(reach, server, tmp_path):
    key = tmp_path / "open_key"
    key.write_bytes(server.identity.read_bytes())
    key.chmod(0o644)
    config = server.client_config()
    config.write_text(config.read_text().replace(str(server.identity), str(key)))
    error = refusal(reach(config=config, identity=str(key)))
    assert "bad permissions" in error.where


def test_no_key_at_all(reach, server, tmp_path):
    config = server.client_config()
    config.write_text(config.read_text().replace(str(server.identity), str(tmp_path / "none")))
    error = refusal(reach(config=config))
    assert "no key at all" in error.where


def test_an_unknown_host_key_is_never_accepted_in_silence(reach, server):
    server.known_hosts.unlink()
    error = refusal(reach())
    assert not isinstance(error, Unreachable)
    assert "is not known" in error.what
    assert fingerprint(server) in error.where
    assert "ssh -F" in error.remedy
    assert "accept_new_host_key = true" in error.remedy
    assert server.accepted() == 0
    assert not server.known_hosts.exists()


def test_the_line_to_type_leads_to_the_same_host(reach, server):
    server.known_hosts.unlink()
    line = next(line for line in refusal(reach(port=server.port, user="root")).remedy.splitlines() if "ssh -F" in line)
    command = line[line.index("ssh -F") :].split()
    subprocess.run([*command[:1], "-o", "StrictHostKeyChecking=accept-new", *command[1:]], check=True, timeout=120)
    assert reach().run("echo in").text == "in\n"


def test_an_unknown_host_key_is_accepted_by_an_explicit_wish(reach, server):
    server.known_hosts.unlink()
    assert reach(accept_new_host_key=True).run("echo in").text == "in\n"
    assert f":{server.port} ssh-ed25519" in server.known_hosts.read_text()


@pytest.mark.parametrize("accept", [False, True])
def test_a_changed_host_key_is_refused_whatever_was_wished(reach, server, accept):
    server.new_host_key()
    server.stop()
    server.start()
    error = refusal(reach(accept_new_host_key=accept))
    assert not isinstance(error, Unreachable)
    assert "has CHANGED" in error.what
    assert str(server.known_hosts) in error.what
    assert fingerprint(server) in error.where
    assert "ssh-keygen -f" in error.remedy
    assert server.accepted() == 0


def test_a_jump_host_that_refuses_is_told_by_its_own_words(reach, server, tmp_path):
    with plain_sshd() as gate:
        config = server.client_config(
            f"Host cluster\n  ProxyJump gate\nHost gate\n  Port {gate.port}\n  HostName 127.0.0.1\n"
            f"  UserKnownHostsFile {gate.known_hosts}\n"
        )
        error = refusal(reach(config=config))
        assert "Permission denied (publickey)" in error.what
        gate.known_hosts.unlink()
        error = refusal(reach(config=config))
        assert "is not known" in error.what
        assert str(gate.port) in error.what
        assert fingerprint(gate) in error.where
        gate.stop()
        error = refusal(reach(config=config))
        assert isinstance(error, Unreachable)
        assert "refused" in str(error)
        gate.start()


def test_settings_that_ssh_cannot_read(reach, server):
    error = refusal(reach(config=server.client_config("NoSuchThing yes\n")))
    assert not isinstance(error, Unreachable)
    assert "ssh cannot read its settings" in error.what


def test_a_server_that_closes_at_once(reach):
    """What one says that has too many connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=lambda: listener.accept()[0].close(), daemon=True).start()
        error = refusal(reach(port=listener.getsockname()[1]))
    assert isinstance(error, Unreachable)
    assert error.transient
    assert "closed the connection" in error.what


def test_a_machine_without_ssh(reach, monkeypatch, tmp_path):
    host = reach()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "there is no ssh" in refusal(host).what
