"""Several machines out of one: a login node and compute nodes as namespaces, on a network of their own.

The login node's first process holds everything: when it ends, or the process that made it does, the kernel ends all
that runs in the lab and takes its mounts and interfaces away.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from labs.slurm.process import CLEAN, LabError, children, only_child, tail, until

HERE = Path(__file__).parent
_NEW = ("unshare", "--mount", "--uts", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
_IN = ("--mount", "--uts", "--pid")


@dataclass
class Machine:
    """The login node or a compute node.

    Args:
        address: its address in the lab's network.
        first: the process that started it, and its own first process's parent or grandparent.
        pid: its own first process, as the machine counts.
    """

    name: str
    address: str
    first: subprocess.Popen[bytes]
    pid: int

    def enter(self, network: bool = True) -> list[str]:
        """The command that runs another in here; without `network` it keeps the machine's own."""
        return ["nsenter", "--target", str(self.pid), *_IN, *(["--net"] if network else []), "--"]

    def run(self, *words: str) -> str:
        """Runs a command in here; its output.

        Raises:
            LabError: it failed.
        """
        done = subprocess.run([*self.enter(), *words], env=CLEAN, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LabError(f"{self.name}: {words}: {done.stderr}")
        return done.stdout

    def power_off(self) -> None:
        """Ends everything that runs in here, at once."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.first.wait()


@dataclass
class Machines:
    """All machines of a lab.

    Args:
        base: the lab's folder.
    """

    base: Path
    nodes: Sequence[str]
    subnet: int = 0
    up: dict[str, Machine] = field(default_factory=dict)
    _login: Machine | None = None

    @property
    def login(self) -> Machine:
        """The login node.

        Raises:
            LabError: `boot` has not started it.
        """
        if self._login is None:
            raise LabError("there is no login node")
        return self._login

    def boot(self) -> None:
        """Starts the login node; its subnet is known then.

        Raises:
            LabError: namespaces cannot be had here (not root, or a container that forbids them).
        """
        (self.base / "run" / "login.net").touch()
        host_net = os.open("/proc/self/ns/net", os.O_RDONLY)
        # Read through the handle: the file itself goes with the lab's folder where this fails.
        with (self.base / "log" / "login.log").open("w+b") as log:
            first = subprocess.Popen(
                [*_NEW, "bash", str(HERE / "login.sh"), str(self.base), f"/proc/self/fd/{host_net}"],
                env=CLEAN, cwd="/", stdin=subprocess.PIPE, stdout=log, stderr=log,
                pass_fds=(host_net,), start_new_session=True,
            )  # fmt: skip
            os.close(host_net)
            told = self.base / "run" / "subnet"
            until(lambda: told.exists() or first.poll() is not None, "a login node")
            if first.poll() is not None:
                log.seek(0)
                raise LabError(f"no namespaces here: {log.read().decode()}")
        self.subnet = int(told.read_text())
        self._login = Machine("login", self.address(2), first, only_child(first))

    def address(self, number: int) -> str:
        """An address of the lab's network: 1 is this machine, 2 the login node, 11 the first compute node."""
        return f"10.213.{self.subnet}.{number}"

    def address_of(self, node: str) -> str:
        """The address of a compute node."""
        return self.address(11 + list(self.nodes).index(node))

    def boot_node(self, name: str) -> Machine:
        """Starts a compute node; does nothing where it is up."""
        if name in self.up:
            return self.up[name]
        folder = self.base / "nodes" / name
        (folder / "up").unlink(missing_ok=True)
        (folder / "local").mkdir(parents=True, exist_ok=True)
        log = self.base / "log" / f"{name}.boot.log"
        script = [str(HERE / "node.sh"), str(self.base), name, self.address_of(name), self.address(1)]
        with log.open("ab") as out:
            command = [*self.login.enter(), *_NEW, "bash", *script]
            first = subprocess.Popen(
                command, env=CLEAN, cwd="/", stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        until(lambda: (folder / "up").exists() or first.poll() is not None, f"{name} up", why=lambda: tail(log))
        inner = children(only_child(first))
        if not inner:
            raise LabError(f"{name} did not start:\n{tail(log)}")
        self.up[name] = Machine(name, self.address_of(name), first, inner[0])
        return self.up[name]

    def power_off(self, name: str) -> None:
        """Cuts a node's power: everything on it ends at once, its interface is gone."""
        machine = self.up.pop(name, None)
        if machine is not None:
            machine.power_off()

    def set_link(self, name: str, state: str) -> None:
        """Plugs a node's cable in (`up`) or out (`down`); what runs on it goes on."""
        self.login.run("ip", "link", "set", name, state)

    def shut_down(self) -> None:
        """Ends all machines; the lab's folder goes with them. Does nothing where none was started."""
        if self._login is None:
            return
        assert self.login.first.stdin is not None
        self.login.first.stdin.close()
        self.login.first.wait(120)
        for machine in self.up.values():
            machine.first.wait(120)
