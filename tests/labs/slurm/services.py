"""The daemons of a lab: what they are started with, in which order, and how one sees that they are ready."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from labs.slurm import database
from labs.slurm.client import Client
from labs.slurm.images import compile_plugin
from labs.slurm.machine import Machines
from labs.slurm.process import Daemon
from labs.slurm.settings import ACCOUNTS, GPUS, Settings, write_users
from labs.slurm.sshd import Sshd

NODES = ("n1", "n2", "n3", "n4")
USER = "ana"
"""A user without rights, who exists on the cluster's machines only."""

SLURMD_PORT = 6818
_LISTEN = "0A"
_FOLDERS = ("etc", "log", "run/munge", "state", "dev", "local", "small", "registry", "images", "containers", "home")


class Services:
    """All daemons, by name: `munged`, `mariadbd`, `slurmdbd`, `slurmctld`, `sshd`, and each node's slurmd (`n1`).

    Args:
        client: sees whether they answer.
        node_timeout: seconds of silence after which Slurm gives a node up.
    """

    sshd: Sshd

    def __init__(self, client: Client, accounting: bool, node_timeout: int) -> None:
        self._client = client
        self._base = client.base
        self._accounting = accounting
        self._node_timeout = node_timeout
        self.machines = Machines(client.base, NODES)
        self.daemons: dict[str, Daemon] = {}

    def start(self) -> None:
        """Starts the machines and everything on them."""
        lay_out(self._base)
        self.machines.boot()
        self._settings().write()
        self._start_services()
        for name in NODES:
            self.boot(name)

    def _settings(self) -> Settings:
        addresses = {name: self.machines.address_of(name) for name in NODES}
        return Settings(
            self._base, self.machines.login.address, self.machines.address(1), addresses,
            self._accounting, self._node_timeout, self._base / "etc" / "pyxis.so",
        )  # fmt: skip

    def _add(self, name: str, *command: str) -> Daemon:
        enter = [*self.machines.login.enter(), "env", f"SLURM_CONF={self._base}/etc/slurm.conf"]
        self.daemons[name] = Daemon(name, enter, command, self._base / "log" / f"{name}.out")
        return self.daemons[name]

    def _start_services(self) -> None:
        run = self._base / "run"
        self._add(
            "munged", "munged", "--foreground", "--force", f"--key-file={self._base}/etc/munge.key",
            f"--socket={run}/munge/munge.socket.2", f"--pid-file={run}/munged.pid",
            f"--log-file={self._base}/log/munged.log", f"--seed-file={run}/munge.seed", "--num-threads=4",
        ).start()  # fmt: skip
        self.sshd = Sshd(self._base, self.machines.login)
        self.daemons["sshd"] = self.sshd.daemon
        self.sshd.daemon.start()
        self.wait_until_ready("munged")
        if self._accounting:
            self._start_accounting()
        self._add("slurmctld", "slurmctld", "-D").start()
        self.wait_until_ready("slurmctld")
        self.wait_until_ready("sshd")

    def _start_accounting(self) -> None:
        data = self._base / "database"
        with database.kept(ACCOUNTS) as tar:
            if not tar.exists():
                database.make(self._base)
                self._start_database()
                self._client.run("sacctmgr", "--immediate", text=ACCOUNTS)
                for daemon in ("slurmdbd", "mariadbd"):
                    self.daemons[daemon].stop(300)
                database.pack(data, tar)
            else:
                database.unpack(tar, data)
        self._start_database()

    def _start_database(self) -> None:
        self._add("mariadbd", *database.command(self._base)).start()
        self.wait_until_ready("mariadbd")
        self._add("slurmdbd", "slurmdbd", "-D").start()
        self.wait_until_ready("slurmdbd")

    def boot(self, name: str) -> None:
        """Switches a node on and starts its slurmd; does nothing where both are."""
        machine = self.machines.boot_node(name)
        enter = [*machine.enter(), "env", f"SLURM_CONF={self._base}/etc/slurm.conf"]
        known = self.daemons.get(name)
        if known is None or list(known.enter) != enter:
            log = self._base / "log" / f"{name}.out"
            self.daemons[name] = Daemon(name, enter, ("slurmd", "-D", "-N", name), log)
        self.daemons[name].start()

    def wait_until_ready(self, name: str) -> None:
        """Waits until a daemon answers; a slurmd, until its node can be used."""
        self.daemons[name].wait_for(lambda: self._ready(name))

    def _ready(self, name: str) -> bool:
        if name in NODES:
            # The controller takes a slurmd that was only restarted for well from the start.
            return listens(self.machines.up[name].pid, SLURMD_PORT) and bool(self._client.usable(name))
        checks: dict[str, Callable[[], bool]] = {
            "munged": lambda: answers_at(self._base / "run" / "munge" / "munge.socket.2"),
            "sshd": self.sshd.ready,
            "mariadbd": lambda: database.ready(self._base),
            "slurmdbd": lambda: self._client.answers("sacctmgr", "--noheader", "show", "cluster"),
            "slurmctld": lambda: self._client.answers("scontrol", "ping"),
        }
        return checks[name]()


def answers_at(path: Path) -> bool:
    """True once somebody takes connections at a socket; one that was killed has left its own."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        return True
    return False


def listens(pid: int, port: int) -> bool:
    """Whether somebody listens at a TCP port of the network that a process is in."""
    rows = [row.split() for row in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return any(row[1].endswith(f":{port:04X}") and row[3] == _LISTEN for row in rows)


def lay_out(base: Path) -> None:
    """Makes a lab's folders, keys, device files, users and plugin."""
    for name in _FOLDERS:
        (base / name).mkdir(parents=True)
    for name in NODES:
        (base / "nodes" / name / "spool").mkdir(parents=True)
    (base / "containers" / "mount").mkdir()
    (base / "etc" / "hosts").touch()
    (base / "state").chmod(0o700)
    (base / "etc" / "munge.key").write_bytes(os.urandom(128))
    (base / "etc" / "munge.key").chmod(0o600)
    for number in range(GPUS):
        os.mknod(base / "dev" / f"nvidia{number}", 0o666 | 0o020000, os.makedev(1, 3))
    write_users(base, [USER])
    compile_plugin(base / "etc" / "pyxis.so")
