"""One alias, two machines: a connection that lingers is used for the machine it leads to, and for no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from labs.sshd import needs_ssh, plain_sshd

from nemo_runspec.transport.ssh import SshHost

pytestmark = needs_ssh


@pytest.fixture
def other():
    """A second machine, told from the first by its home directory."""
    with plain_sshd() as made:
        yield made


def homes(hosts: list[SshHost]) -> list[str]:
    return [host.run('printf %s "$HOME"').text for host in hosts]


def settings(server, alias: str = "*") -> str:
    return f"Host {alias}\n  HostName 127.0.0.1\n  Port {server.port}\n  UserKnownHostsFile {server.known_hosts}\n"


def keys(*servers) -> str:
    """For both: a jump host's configuration is the whole one."""
    files = "".join(f"  IdentityFile {server.identity}\n" for server in servers)
    return f"Host *\n  User root\n{files}  IdentitiesOnly yes\n  GlobalKnownHostsFile /dev/null\n"


def test_an_alias_that_was_edited_leads_elsewhere(server, other, sockets: Path, tmp_path: Path):
    """And back again, where the first connection still lingers and is used."""
    config = tmp_path / "config"

    def edited(to) -> SshHost:
        config.write_text(settings(to, "lab") + keys(server, other))
        return SshHost("lab", config=config, folder=sockets)

    seen = [homes([edited(to)])[0] for to in (server, other, server)]
    assert seen == [str(server.home), str(other.home), str(server.home)]
    assert (server.accepted(), other.accepted()) == (1, 1)


def test_a_jump_host_that_was_edited_leads_elsewhere(server, other, sockets: Path, tmp_path: Path):
    """The alias's own words stay the same."""
    config = tmp_path / "config"
    for gate in (server, other):
        config.write_text(settings(gate, "gate") + settings(server, "lab") + "  ProxyJump gate\n" + keys(server, other))
        assert homes([SshHost("lab", config=config, folder=sockets)]) == [str(server.home)]
    assert other.accepted() == 1, "the second connection went through the second jump host"
    assert server.accepted() == 3


def test_an_ssh_that_does_not_say_where_an_alias_leads(server, reach, sockets: Path, tmp_path: Path, monkeypatch):
    """An older or odd client: one connection for each alias as it is written, and shared all the same."""
    odd = tmp_path / "bin"
    odd.mkdir()
    (odd / "ssh").write_text('#!/bin/sh\n[ "$1" != -G ] || exit 255\nexec /usr/bin/ssh "$@"\n')
    (odd / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{odd}:/usr/bin:/bin")
    config = server.client_config()
    assert homes([reach(config=config), reach(config=config)]) == [str(server.home)] * 2
    assert server.accepted() == 1
