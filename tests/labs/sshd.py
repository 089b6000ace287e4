"""A plain sshd on loopback, for tests of connections alone, and the faults that can befall one."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree

import pytest

from labs.ports import free_port
from labs.slurm.process import CLEAN, LabError, descendants, name_of, strike, tail, until

needs_ssh = pytest.mark.lab("ssh", how="bash .ci/lab, then REQUIRE_LAB=1 uv run --group dev pytest")
"""Marks a test, or as `pytestmark` a file, that needs an sshd."""

_CONFIG = """\
{more}
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
PermitUserEnvironment yes
MaxStartups 100
LogLevel VERBOSE
"""
_OWN_ACCOUNT = 'mount --bind "$1" /etc/passwd; shift; exec "$@"'


@dataclass
class PlainSshd:
    """The daemon, as an ordinary process.

    Args:
        more: lines for sshd_config, which win over its own.
        shell: root's login shell there, in a mount namespace of its own: its home directory is empty there.
    """

    folder: Path
    more: str = ""
    shell: str = "/bin/bash"
    port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        Path("/run/sshd").mkdir(exist_ok=True)
        for name in ("host_key", "user_key"):
            self._new_key(name)
        self.trust()
        self.home.mkdir()

    @property
    def identity(self) -> Path:
        """The key that is let in."""
        return self.folder / "user_key"

    @property
    def home(self) -> Path:
        """The account's home directory there."""
        return self.folder / "home"

    @property
    def log(self) -> Path:
        """What the daemon says."""
        return self.folder / "sshd.log"

    @property
    def known_hosts(self) -> Path:
        """A file that holds the host's key, unless a test has written something else."""
        return self.folder / "known_hosts"

    def trust(self) -> None:
        """Writes the host's present key into `known_hosts`."""
        key = (self.folder / "host_key.pub").read_text().strip()
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {key}\n")

    def client_config(self, more: str = "") -> Path:
        """A new ssh_config file for clients. `more`: lines that win over its own."""
        descriptor, name = tempfile.mkstemp(dir=self.folder, suffix=".config")
        with os.fdopen(descriptor, "w") as out:
            out.write(
                f"{more}\nHost *\n  HostName 127.0.0.1\n  User root\n  Port {self.port}\n"
                f"  IdentityFile {self.identity}\n"
                f"  IdentitiesOnly yes\n  UserKnownHostsFile {self.known_hosts}\n  GlobalKnownHostsFile /dev/null\n"
            )
        return Path(name)

    def start(self) -> PlainSshd:
        """Starts it, and waits until it takes connections."""
        config = self.folder / "sshd_config"
        config.write_text(_CONFIG.format(port=self.port, folder=self.folder, more=self.more))
        command = [*self._enter(), "/usr/sbin/sshd", "-D", "-e", "-f", str(config)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=CLEAN, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        daemon = self._process
        until(lambda: self._takes_connections() or daemon.poll() is not None, "sshd", why=lambda: tail(self.log))
        if daemon.poll() is not None:
            raise LabError(f"sshd ended at once:\n{tail(self.log)}")
        return self

    def stop(self) -> None:
        """Ends the daemon and cuts every connection."""
        if self._process is None:
            return
        # While it stands still it lets nobody in anew; killed, it does not go on before it ends.
        self._hold_daemon()
        self._each_connection(signal.SIGKILL, later=True)
        self._process.kill()
        self._process.wait(120)
        self._process = None

    def drop(self) -> int:
        """Cuts every connection; remote commands go on, as they do when a network fails. Returns how many it were."""
        return self._each_connection(signal.SIGKILL)

    def freeze(self) -> int:
        """Lets every connection and the daemon hang without a word, as behind a firewall that forgot them."""
        self._hold_daemon()
        return self._each_connection(signal.SIGSTOP, later=True)

    def thaw_daemon(self) -> None:
        """Lets new connections be made, while the old ones go on to hang."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def thaw(self) -> int:
        """Lets all of them go on."""
        self.thaw_daemon()
        return self._each_connection(signal.SIGCONT)

    def new_host_key(self) -> None:
        """Gives the host another key, as a reinstalled or a false one has."""
        self._new_key("host_key")

    def accepted(self) -> int:
        """How many connections have been let in, in all."""
        return len(re.findall(r"^Accepted publickey for ", self.log.read_text(errors="replace"), re.M))

    def sessions(self) -> int:
        """How many commands have been started, in all."""
        return len(re.findall(r"^Starting session: ", self.log.read_text(errors="replace"), re.M))

    def processes(self) -> list[int]:
        """The daemon's connections and what runs below them, by process id."""
        return list(descendants(self._process.pid)) if self._process is not None else []

    def end_commands(self) -> None:
        """Kills what commands have left behind, those too whose connection was cut."""
        home = f"HOME={self.home}".encode()
        strike(lambda: [pid for pid in _all() if home in _environment(pid)], signal.SIGKILL, later=True)

    def _hold_daemon(self) -> None:
        if self._process is not None:
            daemon = self._process.pid
            strike(lambda: [daemon], signal.SIGSTOP)

    def _enter(self) -> list[str]:
        account = self.folder / "passwd"
        lines = [line for line in Path("/etc/passwd").read_text().splitlines() if not line.startswith("root:")]
        account.write_text("\n".join([f"root:x:0:0:root:{self.home}:{self.shell}", *lines, ""]))
        return ["unshare", "--mount", "bash", "-c", _OWN_ACCOUNT, "bash", str(account)]

    def _new_key(self, name: str) -> None:
        key = self.folder / name
        key.unlink(missing_ok=True)
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"lab {name}", "-f", str(key)]
        subprocess.run(make, check=True, input=b"y\n")

    def _takes_connections(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def _each_connection(self, number: int, *, later: bool = False) -> int:
        return strike(lambda: [pid for pid in self.processes() if name_of(pid) == "sshd"], number, later=later)


@contextmanager
def plain_sshd(more: str = "", shell: str = "/bin/bash") -> Iterator[PlainSshd]:
    """A daemon that runs, below `/tmp`: a test's own folder may be too deep for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="nemo-sshd-", dir="/tmp"))
    server = PlainSshd(folder, more, shell).start()
    try:
        yield server
    finally:
        server.thaw()
        server.stop()
        server.end_commands()
        rmtree(folder, ignore_errors=True)


def master_of(sockets: Path) -> int:
    """The process that keeps the only connection whose control socket lies in a folder."""
    (path,) = (path for path in sockets.iterdir() if path.is_socket())
    asked = ["ssh", "-F", "/dev/null", "-S", str(path), "-O", "check", "anyone"]
    said = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=True).stderr
    return int(said.partition("pid=")[2].partition(")")[0])


def running(word: str) -> list[int]:
    """The processes of this machine, but this one, whose command line or environment holds a word."""
    found = []
    for pid in _all():
        with suppress(OSError):
            seen = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
            if word.encode() in seen and pid != os.getpid():
                found.append(pid)
    return found


def _all() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]


def _environment(pid: int) -> list[bytes]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return []
