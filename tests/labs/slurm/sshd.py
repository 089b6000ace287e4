"""An sshd on loopback that leads to a lab's login node, and faults in the connections to it."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from labs.ports import free_port
from labs.slurm.machine import Machine
from labs.slurm.process import Daemon, descendants, name_of, strike

_CONFIG = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
SetEnv SLURM_CONF={base}/etc/slurm.conf
Subsystem sftp internal-sftp
LogLevel VERBOSE
"""


@dataclass(frozen=True)
class SshAccess:
    """How to reach the login node. `identity` is the private key's file; `known_hosts` holds the host's key."""

    host: str
    port: int
    user: str
    identity: Path
    known_hosts: Path

    def as_user(self, user: str) -> SshAccess:
        """The same as another user."""
        return replace(self, user=user)

    def options(self) -> list[str]:
        """Options of the ssh, scp and sftp commands, strict about the host's key."""
        settings = {
            "Port": self.port,
            "IdentityFile": self.identity,
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": self.known_hosts,
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "BatchMode": "yes",
        }
        return ["-F", "/dev/null", *(word for key, value in settings.items() for word in ("-o", f"{key}={value}"))]

    def command(self, *words: str) -> list[str]:
        """The command line that runs `words`, joined by spaces as ssh does, on the login node."""
        return ["ssh", *self.options(), f"{self.user}@{self.host}", *words]


class Sshd:
    """The daemon: in the login node's namespaces but with this machine's network, so that 127.0.0.1 reaches it."""

    def __init__(self, base: Path, login: Machine) -> None:
        self._folder = base / "ssh"
        self._login = login
        self._folder.mkdir()
        Path("/run/sshd").mkdir(exist_ok=True)
        for name in ("host_key", "user_key"):
            make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"lab {name}", "-f", f"{self._folder}/{name}"]
            subprocess.run(make, check=True)
        config = self._folder / "sshd_config"
        self._port = free_port()
        config.write_text(_CONFIG.format(port=self._port, folder=self._folder, base=base))
        (self._folder / "known_hosts").write_text(f"[127.0.0.1]:{self._port} {self._key('host_key')}\n")
        command = ["/usr/sbin/sshd", "-D", "-e", "-f", str(config)]
        self.daemon = Daemon("sshd", login.enter(network=False), command, base / "log" / "sshd.log")

    @property
    def access(self) -> SshAccess:
        """How root reaches it."""
        return SshAccess("127.0.0.1", self._port, "root", self._folder / "user_key", self._folder / "known_hosts")

    def ready(self) -> bool:
        """True once it takes connections."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
            return True
        return False

    def new_host_key(self) -> None:
        """Gives the host another key, which no known_hosts file has: what a reinstalled or a false host looks like."""
        key = self._folder / "host_key"
        key.unlink()
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], input=b"y\n", check=True)

    def drop(self) -> int:
        """Cuts every connection; remote commands go on, as they do when a network fails. Returns how many it were."""
        return self._each_connection(signal.SIGKILL)

    def freeze(self) -> int:
        """Lets every connection hang without a word, as behind a firewall that forgot it."""
        return self._each_connection(signal.SIGSTOP)

    def thaw(self) -> int:
        """Lets frozen connections go on."""
        return self._each_connection(signal.SIGCONT)

    def connections(self) -> int:
        """How many connections have been made in all."""
        return len(re.findall(r"^Accepted publickey for ", self._log(), re.M))

    def commands(self) -> int:
        """How many commands, shells and sftp sessions have been started in all: each is at least one round trip."""
        return len(re.findall(r"^Starting session: ", self._log(), re.M))

    def _log(self) -> str:
        return self.daemon.log.read_text(errors="replace")

    def _key(self, name: str) -> str:
        return (self._folder / f"{name}.pub").read_text().strip()

    def _each_connection(self, number: int) -> int:
        # Connections outlive the daemon: the login node's first process is their parent then.
        tops = [self._login.pid, *([self.daemon.pid] if self.daemon.alive() else [])]
        return strike(lambda: [pid for top in tops for pid in descendants(top) if name_of(pid) == "sshd"], number)
