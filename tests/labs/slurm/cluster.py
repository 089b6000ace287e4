"""`SlurmLab`: slurmctld, four slurmd, munge, slurmdbd with MariaDB, and an sshd, as processes of the test that made it."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from labs.slurm import database
from labs.slurm.images import compile_plugin, make_image
from labs.slurm.machine import Machines
from labs.slurm.process import CLEAN, Daemon, LabError, tail, until
from labs.slurm.settings import ACCOUNTS, GPUS, Settings, write_users
from labs.slurm.sshd import SshAccess, Sshd

NODES = ("n1", "n2", "n3", "n4")
USER = "ana"
"""A user without rights, who exists on the cluster's machines only."""

_FOLDERS = ("etc", "log", "run/munge", "state", "dev", "local", "small", "registry", "images", "containers", "home")
_DIAGNOSES = (
    ("sinfo", "--Node", "--long"),
    ("squeue", "--states=all", "--format=%i %j %u %P %T %M %D %R"),
    ("sacct", "--allusers", "--format=JobID%20,JobName%20,Partition,Account,State%20,ExitCode,Elapsed,NodeList"),
)


class SlurmLab:
    """A real Slurm on this machine: nodes n1 to n4 of 64 CPUs, 1 TB and 8 GPUs each, on a network of their own.

    Every file that a job needs is shared by all machines, as they are all this machine's; only `unshared` is not.
    Several labs can run side by side.

    Args:
        accounting: with slurmdbd; then accounts, QoS and limits are enforced (see `settings.ACCOUNTS`).
        node_timeout: seconds of silence after which Slurm gives a node up.
    """

    def __init__(self, *, accounting: bool = True, node_timeout: int = 10) -> None:
        self.accounting = accounting
        self._node_timeout = node_timeout
        self.base = Path(tempfile.mkdtemp(prefix="slurm-lab-", dir="/tmp"))
        self.base.chmod(0o755)
        self._machines = Machines(self.base, NODES)
        self._daemons: dict[str, Daemon] = {}
        self._hurt: set[str] = set()

    # Life

    def start(self) -> SlurmLab:
        """Starts everything; returns itself once all nodes are idle.

        Raises:
            LabError: something did not start, with its log. Nothing is left running then.
        """
        try:
            self._lay_out()
            self._machines.boot()
            self._settings().write()
            self._start_services()
            self._start_nodes()
            self._wait_for_idle_nodes(90)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Ends everything; no process, mount, interface or file is left."""
        if hasattr(self._machines, "login"):
            self._machines.shut_down()
        else:
            subprocess.run(["rm", "-rf", self.base], check=True)

    def __enter__(self) -> SlurmLab:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Use

    def environment(self) -> dict[str, str]:
        """What a process must see to use the cluster from this machine."""
        return {"SLURM_CONF": str(self.base / "etc" / "slurm.conf"), "PATH": CLEAN["PATH"]}

    def run(
        self, *words: str, check: bool = True, timeout: float = 60, cwd: Path | None = None, text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command of Slurm's from this machine, as root.

        Args:
            text: standard input.

        Raises:
            LabError: `check`, and it failed; with what it said.
        """
        environment = {**CLEAN, **self.environment()}
        given = {"input": text} if text is not None else {"stdin": subprocess.DEVNULL}
        done = subprocess.run(
            words, env=environment, cwd=cwd or self.base / "home" / "root", capture_output=True, text=True,
            timeout=timeout, check=False, **given,
        )  # fmt: skip
        if check and done.returncode:
            raise LabError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def submit(self, script: str, *options: str) -> str:
        """Submits the text of a batch script, `#!/bin/bash` added; the job's id."""
        return self.run("sbatch", "--parsable", *options, text=f"#!/bin/bash\n{script}\n").stdout.strip().split(";")[0]

    def state(self, job: str) -> str:
        """A job's state as squeue tells it, such as RUNNING; an array's states, each once, in order."""
        told = self.run("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T").stdout.split()
        return ",".join(sorted(set(told)))

    def wait_for(self, job: str, *states: str, seconds: float = 60) -> str:
        """Waits until a job is in one of these states, such as COMPLETED; which one.

        Raises:
            LabError: it was not, within this many seconds; with `diagnose()`.
        """
        until(lambda: self.state(job) in states, f"job {job} {' or '.join(states)}", seconds, self.diagnose)
        return self.state(job)

    @property
    def ssh(self) -> SshAccess:
        """How to reach the login node as root; `lab.ssh.as_user(cluster.USER)` for a plain user."""
        return self.sshd.access

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
            make_image(self.base / "registry" / name.replace("/", "+").replace("#", "+"), files, environment)
            return name
        return str(make_image(self.base / "images" / f"{name}.sqsh", files, environment))

    # Faults

    def restart(self, daemon: str) -> None:
        """Ends a daemon and starts it: `slurmctld`, `slurmdbd`, `mariadbd`, `munged`, `sshd`, or a node's slurmd (`n1`)."""
        self.stop_daemon(daemon)
        self.start_daemon(daemon)

    def stop_daemon(self, daemon: str) -> None:
        """Ends a daemon; a node's jobs run on."""
        self._hurt.add(daemon)
        self._daemons[daemon].stop()

    def start_daemon(self, daemon: str) -> None:
        """Starts a daemon again; returns once it answers, a node's once it is up."""
        self._daemons[daemon].start()
        self._wait_until_ready(daemon)
        self._hurt.discard(daemon)

    def freeze(self, daemon: str) -> None:
        """Stops a daemon in its tracks: it takes connections and never answers (`Socket timed out`)."""
        self._hurt.add(daemon)
        self._daemons[daemon].signal(signal.SIGSTOP)

    def thaw(self, daemon: str) -> None:
        """Lets a frozen daemon go on."""
        self._daemons[daemon].signal(signal.SIGCONT)
        self._hurt.discard(daemon)

    def node_down(self, node: str) -> None:
        """Unplugs a node: what runs on it runs on, and nobody hears of it. Slurm sees it after `node_timeout`."""
        self._hurt.add(node)
        self._machines.set_link(node, "down")

    def node_off(self, node: str) -> None:
        """Cuts a node's power: every process on it ends at once."""
        self._hurt.add(node)
        self._machines.power_off(node)
        self._daemons[node].stop()

    def node_up(self, node: str) -> None:
        """Plugs a node in or switches it on; returns once Slurm can use it."""
        if node in self._machines.up:
            self._machines.set_link(node, "up")
            self._daemons[node].signal(signal.SIGCONT)
        self._boot(node)
        # A slurmd that was cut off registers when it is asked; asking is not waiting for the next round.
        self.run("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)
        self._wait_until_ready(node)
        self._hurt.discard(node)

    def stop_ssh(self) -> None:
        """Ends the sshd and every connection to it."""
        self.sshd.drop()
        self.stop_daemon("sshd")

    def start_ssh(self) -> None:
        """Starts the sshd again, on the same port with the same key."""
        self.start_daemon("sshd")

    def drop_ssh_connections(self) -> int:
        """Cuts every SSH connection, and no more; how many there were."""
        return self.sshd.drop()

    def reset(self) -> None:
        """Mends every fault and ends every job, so that the next test finds an idle cluster."""
        self.sshd.thaw()
        for name in sorted(self._hurt, key=lambda name: name in NODES):
            self._mend(name)
        jobs = self.run("squeue", "--noheader", "--format=%A").stdout.split()
        if jobs:
            self.run("scancel", *sorted(set(jobs)))
            # A job whose task heeds no TERM ends after KillWait; one of a node that was away, when that is heard of.
            self.run("scancel", "--signal=KILL", "--full", *sorted(set(jobs)), check=False)
        if jobs or self._idle_nodes() < len(NODES):
            self._wait_for_idle_nodes(60)

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
        logs = self.base / "log"
        # A daemon with a log of its own says the same on its output.
        for log in sorted(file for file in logs.iterdir() if file.suffix == ".log" or not file.with_suffix(".log").exists()):
            parts.append(f"== {log.name}\n{tail(log)}")
        return "\n\n".join(parts)

    def _told(self, command: Sequence[str]) -> str:
        try:
            done = self.run(*command, check=False, timeout=10)
        except subprocess.TimeoutExpired:
            return "no answer within 10 s"
        return done.stdout + done.stderr

    # Parts

    def _lay_out(self) -> None:
        for name in _FOLDERS:
            (self.base / name).mkdir(parents=True)
        for name in NODES:
            (self.base / "nodes" / name / "spool").mkdir(parents=True)
        (self.base / "containers" / "mount").mkdir()
        (self.base / "etc" / "hosts").touch()
        (self.base / "state").chmod(0o700)
        (self.base / "etc" / "munge.key").write_bytes(os.urandom(128))
        (self.base / "etc" / "munge.key").chmod(0o600)
        for number in range(GPUS):
            os.mknod(self.base / "dev" / f"nvidia{number}", 0o666 | 0o020000, os.makedev(1, 3))
        write_users(self.base, [USER])
        compile_plugin(self.base / "etc" / "pyxis.so")

    def _settings(self) -> Settings:
        addresses = {name: self._machines.address_of(name) for name in NODES}
        return Settings(
            self.base, self._machines.login.address, self._machines.address(1), addresses,
            self.accounting, self._node_timeout, self.base / "etc" / "pyxis.so",
        )  # fmt: skip

    def _add(self, name: str, *command: str) -> Daemon:
        enter = [*self._machines.login.enter(), "env", f"SLURM_CONF={self.base}/etc/slurm.conf"]
        self._daemons[name] = Daemon(name, enter, command, self.base / "log" / f"{name}.out")
        return self._daemons[name]

    def _start_services(self) -> None:
        run = self.base / "run"
        self._add(
            "munged", "munged", "--foreground", "--force", f"--key-file={self.base}/etc/munge.key",
            f"--socket={run}/munge/munge.socket.2", f"--pid-file={run}/munged.pid",
            f"--log-file={self.base}/log/munged.log", f"--seed-file={run}/munge.seed", "--num-threads=4",
        ).start()  # fmt: skip
        self.sshd = Sshd(self.base, self._machines.login)
        self._daemons["sshd"] = self.sshd.daemon
        self.sshd.daemon.start()
        self._wait_until_ready("munged")
        if self.accounting:
            self._start_accounting()
        self._add("slurmctld", "slurmctld", "-D").start()
        self._wait_until_ready("slurmctld")
        self._wait_until_ready("sshd")

    def _start_accounting(self) -> None:
        data = self.base / "database"
        with database.kept(ACCOUNTS) as tar:
            if not tar.exists():
                database.make(data)
                self._start_database()
                self.run("sacctmgr", "--immediate", text=ACCOUNTS)
                self._daemons["slurmdbd"].stop()
                self._daemons["mariadbd"].stop()
                database.pack(data, tar)
            else:
                database.unpack(tar, data)
        self._start_database()

    def _start_database(self) -> None:
        self._add("mariadbd", *database.command(self.base)).start()
        self._wait_until_ready("mariadbd")
        self._add("slurmdbd", "slurmdbd", "-D").start()
        self._wait_until_ready("slurmdbd")

    def _start_nodes(self) -> None:
        for name in NODES:
            self._boot(name)

    def _boot(self, name: str) -> None:
        machine = self._machines.boot_node(name)
        enter = [*machine.enter(), "env", f"SLURM_CONF={self.base}/etc/slurm.conf"]
        known = self._daemons.get(name)
        if known is None or list(known.enter) != enter:
            log = self.base / "log" / f"{name}.out"
            self._daemons[name] = Daemon(name, enter, ("slurmd", "-D", "-N", name), log)
        self._daemons[name].start()

    def _wait_until_ready(self, name: str) -> None:
        self._daemons[name].wait_for(lambda: self._ready(name), 60)

    def _ready(self, name: str) -> bool:
        if name in NODES:
            return bool(self._usable(name))
        checks = {
            "munged": lambda: (self.base / "run" / "munge" / "munge.socket.2").exists(),
            "sshd": self.sshd.ready,
            "mariadbd": lambda: database.ready(self.base),
            "slurmdbd": lambda: self._answers("sacctmgr", "--noheader", "show", "cluster"),
            "slurmctld": lambda: self._answers("scontrol", "ping"),
        }
        return checks[name]()

    def _answers(self, *command: str) -> bool:
        with suppress(subprocess.TimeoutExpired):
            return self.run(*command, check=False, timeout=5).returncode == 0
        return False

    def _usable(self, *nodes: str, states: Sequence[str] = ("idle", "mixed", "allocated")) -> int:
        """How many of these nodes are in one of these states, with no flag such as `*` (does not answer) behind it."""
        asked = ("sinfo", "--noheader", "--Node", f"--nodes={','.join(nodes)}", "--partition=batch", "--format=%T")
        with suppress(subprocess.TimeoutExpired):
            return sum(state in states for state in self.run(*asked, check=False, timeout=5).stdout.split())
        return 0

    def _idle_nodes(self) -> int:
        return self._usable(*NODES, states=("idle",))

    def _wait_for_idle_nodes(self, seconds: float) -> None:
        until(lambda: self._idle_nodes() == len(NODES), "all nodes idle", seconds, self.diagnose)
