"""`SlurmLab`: slurmctld, four slurmd, munge, slurmdbd with MariaDB, and an sshd, as children of the test's process."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from labs.slurm.client import Client
from labs.slurm.images import make_image
from labs.slurm.process import strike, tail, until
from labs.slurm.services import NODES, USER, Services
from labs.slurm.sshd import SshAccess, Sshd
from labs.sshd import running

__all__ = ["NODES", "USER", "SlurmLab"]

_DIAGNOSES = (
    ("sinfo", "--Node", "--long", "--partition=batch"),
    ("squeue", "--states=all", "--format=%i %j %u %P %T %M %D %R"),
    ("sacct", "--allusers", "--format=JobID%20,JobName%20,Partition,Account,State%20,ExitCode,Elapsed,NodeList"),
)


class SlurmLab(Client):
    """A real Slurm on this machine: nodes n1 to n4 of 64 CPUs, 1 TB and 8 GPUs each, on a network of their own.

    Every file that a job needs is shared by all machines, as they are all this machine's; only `unshared` is not.
    Several labs can run side by side.

    Args:
        accounting: with slurmdbd; then accounts, QoS and limits are enforced (see `settings.ACCOUNTS`).
        node_timeout: seconds of silence after which Slurm gives a node up.
    """

    def __init__(self, *, accounting: bool = True, node_timeout: int = 10) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="slurm-lab-", dir="/tmp")))
        self.base.chmod(0o755)
        self._services = Services(self, accounting, node_timeout)
        self._hurt: set[str] = set()

    # Life

    def start(self) -> SlurmLab:
        """Starts everything; returns itself once all nodes are idle.

        Raises:
            LabError: something did not start, with its log. Nothing is left running then.
        """
        try:
            self._services.start()
            self._wait_for_idle_nodes()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Ends everything; no process, mount, interface or file is left."""
        self._services.machines.shut_down()
        for daemon in self._services.daemons.values():
            daemon.stop()
        shutil.rmtree(self.base, ignore_errors=True)

    def __enter__(self) -> SlurmLab:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Use

    def wait_for(self, job: str, *states: str, seconds: float = 120) -> str:
        """Waits until a job is in one of these states, such as COMPLETED; which one.

        Raises:
            LabError: it was not, within this many seconds; with `diagnose()`.
        """
        until(lambda: self.state(job) in states, f"job {job} {' or '.join(states)}", seconds, self.diagnose)
        return self.state(job)

    def output(self, job: str) -> str:
        """What a job of `submit` has written so far."""
        file = self.base / "home" / "root" / f"slurm-{job}.out"
        return file.read_text() if file.exists() else ""

    @property
    def sshd(self) -> Sshd:
        """The sshd: counts connections and commands, freezes connections, changes its key."""
        return self._services.sshd

    @property
    def ssh(self) -> SshAccess:
        """How to reach the login node as root; `lab.ssh.as_user(cluster.USER)` for a plain user."""
        return self.sshd.access

    @property
    def outside(self) -> str:
        """The address under which the cluster's machines reach this one."""
        return self._services.machines.address(1)

    @property
    def unshared(self) -> Path:
        """A folder that is another one on every node, and here yet another: as `/tmp` is on a real cluster."""
        return self.base / "local"

    @property
    def small(self) -> Path:
        """A file system of 4 MB that exists on the cluster's machines only: one that gets full."""
        return self.base / "small"

    def image(
        self, name: str, files: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None
    ) -> str:
        """Makes a container image (see `images.make_image`); what to give as --container-image.

        Args:
            name: a plain name makes a `.sqsh` file's path; one with `/` or `:`, an image in a registry.
        """
        if set(name) & set("/:#"):
            make_image(self.base / "registry" / re.sub("[/:#]", "+", name), files, environment)
            return name
        return str(make_image(self.base / "images" / f"{name}.sqsh", files, environment))

    # Faults

    def restart(self, daemon: str) -> None:
        """Ends a daemon and starts it.

        Args:
            daemon: `slurmctld`, `slurmdbd`, `mariadbd`, `munged`, `sshd`, or a node's slurmd (`n1`).
        """
        self.stop_daemon(daemon)
        self.start_daemon(daemon)

    def stop_daemon(self, daemon: str) -> None:
        """Ends a daemon; a node's jobs run on."""
        self._hurt.add(daemon)
        self._services.daemons[daemon].stop()

    def start_daemon(self, daemon: str) -> None:
        """Starts a daemon again; returns once it answers, a node's once it is up."""
        self._services.daemons[daemon].start()
        self._services.wait_until_ready(daemon)
        self._hurt.discard(daemon)

    def runs(self, daemon: str) -> bool:
        """False once a daemon has ended, by itself or not."""
        return self._services.daemons[daemon].alive()

    def crash(self, daemon: str) -> None:
        """Has a daemon die as if by itself: the lab does not know that a test has asked for it."""
        self._services.daemons[daemon].signal(signal.SIGKILL)
        until(lambda: not self.runs(daemon), f"the end of {daemon}")

    def freeze(self, daemon: str) -> None:
        """Stops a daemon in its tracks: it takes connections and never answers (`Socket timed out`)."""
        self._hurt.add(daemon)
        strike(lambda: [self._services.daemons[daemon].pid], signal.SIGSTOP)

    def thaw(self, daemon: str) -> None:
        """Lets a frozen daemon go on."""
        self._services.daemons[daemon].signal(signal.SIGCONT)
        self._hurt.discard(daemon)

    def node_down(self, node: str) -> None:
        """Unplugs a node: what runs on it runs on, and nobody hears of it. Slurm sees it after `node_timeout`."""
        self._hurt.add(node)
        self._services.machines.set_link(node, "down")

    def set_node_down(self, node: str, reason: str = "test") -> None:
        """Has Slurm give a node up at once, as a health check does; its jobs fail or are requeued."""
        self._hurt.add(node)
        self.run("scontrol", "update", f"NodeName={node}", "State=DOWN", f"Reason={reason}")

    def node_off(self, node: str) -> None:
        """Cuts a node's power: every process on it ends at once."""
        self._hurt.add(node)
        self._services.machines.power_off(node)
        self._services.daemons[node].stop()

    def node_up(self, node: str) -> None:
        """Plugs a node in or switches it on; returns once Slurm can use it."""
        if node in self._services.machines.up:
            self._services.machines.set_link(node, "up")
            self._services.daemons[node].signal(signal.SIGCONT)
        self._services.boot(node)
        # A slurmd that was cut off registers when it is asked; asking is not waiting for the next round.
        self.run("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)
        self._services.wait_until_ready(node)
        self._hurt.discard(node)

    def stop_ssh(self) -> None:
        """Ends the sshd and every connection to it."""
        self.stop_daemon("sshd")
        self.sshd.drop()

    def start_ssh(self) -> None:
        """Starts the sshd again, on the same port with the same key."""
        self.start_daemon("sshd")

    def drop_ssh_connections(self) -> int:
        """Cuts every SSH connection, and no more; how many there were."""
        return self.sshd.drop()

    def reset(self) -> list[str]:
        """Mends every fault and ends every job, so that the next test finds an idle cluster.

        Returns: the daemons that are dead though nobody has ended them.
        """
        self.sshd.thaw()
        self._end_keepers()
        dead = {name for name, daemon in self._services.daemons.items() if not daemon.alive()}
        broken = sorted(dead - self._hurt)
        for name in [name for name in self._services.daemons if name in self._hurt | dead]:  # as they need each other
            self._mend(name)
        jobs = self.run("squeue", "--noheader", "--format=%A").stdout.split()
        if jobs:
            self.run("scancel", *sorted(set(jobs)))
            # A job whose task heeds no TERM ends after KillWait; one of a node that was away, when that is heard of.
            self.run("scancel", "--signal=KILL", "--full", *sorted(set(jobs)), check=False)
        if jobs or self._idle_nodes() < len(NODES):
            self._wait_for_idle_nodes()
        return broken

    def _end_keepers(self) -> None:
        """Ends what waits on the login node for jobs with secrets that no test has ever submitted."""
        for pid in set(running("nemotron-secrets")) & set(running(str(self.base))):
            with suppress(ProcessLookupError, PermissionError):
                if os.getpgid(pid) == pid:
                    os.killpg(pid, signal.SIGKILL)

    def _mend(self, name: str) -> None:
        if name in NODES:
            self.node_up(name)
        else:
            self.thaw(name)
            self.start_daemon(name)

    # Diagnosis

    def diagnose(self) -> str:
        """What a person would look at first: nodes, queue, accounting, and the end of every daemon's log."""
        parts = [f"$ {' '.join(command)}\n{self._told(command)}" for command in _DIAGNOSES]
        logs = sorted((self.base / "log").iterdir())
        # A daemon with a log of its own says the same on its output.
        own = [file for file in logs if file.suffix == ".log" or not file.with_suffix(".log").exists()]
        parts += [f"== {file.name}\n{tail(file)}" for file in own]
        return "\n\n".join(parts)

    def _told(self, command: Sequence[str]) -> str:
        try:
            done = self.run(*command, check=False, timeout=10)
        except subprocess.TimeoutExpired:
            return "no answer within 10 s"
        return done.stdout + done.stderr

    def _idle_nodes(self) -> int:
        return self.usable(*NODES, states=("idle",))

    def _wait_for_idle_nodes(self) -> None:
        until(lambda: self._idle_nodes() == len(NODES), "all nodes idle", 180, self.diagnose)
