"""A project whose jobs run on the Slurm lab, used from the outside: `nemotron` as processes, jobs by their names."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import warm
from labs.slurm.cluster import SlurmLab
from support import Outcome, Project, contents, finish, make_project
from waiting import LONG, until

_ENV = """\
[here]
executor = "slurm"
account = "acme"
partition = "batch"
time = "00:10:00"

[there]
extends = "here"
tunnel = "ssh"
host = "lab"
startup_commands = ["export PATH={python}:$PATH"]

[pair]
extends = "there"
nodes = 2
"""
_SSH = """\
#!/bin/sh
exec {ssh} -F {config} "$@"
"""
_CONFIG = """\
Host lab
  HostName {access.host}
  Port {access.port}
  User {access.user}
  IdentityFile {access.identity}
  IdentitiesOnly yes
  UserKnownHostsFile {access.known_hosts}
  GlobalKnownHostsFile /dev/null
"""


@dataclass(frozen=True)
class Cluster:
    """A lab and a project with the profiles `here` (on the login node), `there` (over SSH), `pair` (so, two nodes).

    Args:
        word: what names of its jobs begin with; the lab knows those of other tests too.
    """

    lab: SlurmLab
    project: Project
    word: str

    def nemotron(self, *args: str, **environment: str) -> Outcome:
        """`nemotron ARGS`, waited for."""
        return finish(self.started(*args, **environment))

    def started(self, *args: str, **environment: str) -> subprocess.Popen[str]:
        """`nemotron ARGS` as a process without a terminal."""
        return warm.start(
            args,
            cwd=self.project.folder,
            env=self.project.environment(**environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def script(self, text: str, name: str = "") -> str:
        """Writes a script; what names it on the command line."""
        self.project.write(f"{name or self.word}.py", textwrap.dedent(text))
        return f"./{name or self.word}.py"

    def batch(self, text: str, *args: str, profile: str = "there", **environment: str) -> str:
        """`nemotron run SCRIPT --batch PROFILE`; the job's name."""
        return self.nemotron("run", self.script(text), "--batch", profile, *args, **environment).succeeds().out.strip()

    def show(self, name: str) -> dict[str, Any]:
        """What is known of a job without asking anybody."""
        return dict(self.nemotron("jobs", "show", name, "--json").succeeds().json)

    def status(self, name: str) -> dict[str, Any]:
        """What `jobs status` says of a job."""
        return dict(self.nemotron("jobs", "status", name, "--json").succeeds().json[0])

    def newest(self) -> str:
        """The name of the job that was recorded last."""
        return str(self.nemotron("jobs", "list", "--json").succeeds().json[0]["name"])

    def logs(self, name: str) -> list[str]:
        """The ranks' lines of `jobs logs`; Slurm adds some of its own where a step is ended."""
        return ranks(self.nemotron("jobs", "logs", name).succeeds().out.splitlines())

    def until(self, name: str, good: Callable[[dict[str, Any]], bool], seconds: float = LONG) -> dict[str, Any]:
        """The job's record once it is as it should be; asks the cluster."""
        return until(lambda: self.status(name), name, good, seconds)

    def log_has(self, name: str, text: str, seconds: float = LONG) -> list[str]:
        """The log's lines once the text is in one of them."""
        return until(lambda: self.logs(name), f"{text!r} in the log", lambda lines: text in "\n".join(lines), seconds)

    def local(self, name: str) -> Path:
        """A job's folder on this machine."""
        return self.project.state / "jobs" / name

    def remote(self, name: str) -> Path:
        """A job's folder on the cluster, which this machine sees too."""
        return Path(self.show(name)["handle"]["job_dir"])

    def queued(self, word: str = "") -> list[list[str]]:
        """Id, name and state of every job, over or not, whose name begins with the word, or with the project's."""
        told = self.lab.run("squeue", "--noheader", "--states=all", "--format=%A|%j|%T").stdout.splitlines()
        return [line.split("|") for line in told if line.split("|")[1].startswith(word or self.word)]


@contextmanager
def make_cluster(lab: SlurmLab, top: Path) -> Iterator[Cluster]:
    """A project below `top` with `here` and `there` in its env.toml, and an ssh of its own that knows the lab."""
    project = make_project(top, _ENV.format(python=Path(sys.executable).parent))
    sockets = tempfile.mkdtemp(prefix="rt-", dir="/tmp")  # their paths must be short
    tools, ssh = top / "bin", shutil.which("ssh") or "ssh"
    tools.mkdir()
    (top / "ssh_config").write_text(_CONFIG.format(access=lab.ssh))
    (tools / "ssh").write_text(_SSH.format(ssh=ssh, config=top / "ssh_config"))
    (tools / "ssh").chmod(0o755)
    found = lab.environment()
    found["PATH"] = f"{tools}:{Path(sys.executable).parent}:{found['PATH']}"
    project.extra.update(found, XDG_RUNTIME_DIR=sockets, PYTHONDONTWRITEBYTECODE="1")
    kept = lab.base / "compared"  # asking NeMo-Run about a batch script takes it seconds, once
    kept.mkdir(exist_ok=True)
    (project.state / "cache").mkdir(parents=True)
    (project.state / "cache" / "compared").symlink_to(kept)
    try:
        yield Cluster(lab, project, f"t{uuid.uuid4().hex[:6]}")
    finally:
        lab.drop_ssh_connections()
        shutil.rmtree(sockets, ignore_errors=True)


class Reader:
    """The lines of a stream, read as they come."""

    def __init__(self, stream: IO[str]) -> None:
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self.lines.append(line.rstrip("\n"))

    def has(self, text: str) -> None:
        """Waits until a line is the text."""
        until(lambda: text in self.lines, f"the line {text!r}")

    def tells(self, pattern: str) -> None:
        """Waits until a line begins with what the pattern matches."""
        matches = re.compile(pattern).match
        until(lambda: [*self.lines], f"a line with {pattern!r}", lambda lines: any(map(matches, lines)))

    def all(self) -> list[str]:
        """All of them, once the stream has ended."""
        self._thread.join(LONG)
        assert not self._thread.is_alive(), f"the stream has not ended: {self.lines}"
        return self.lines


def ranks(lines: Iterable[str]) -> list[str]:
    """The lines that ranks have written: each behind its number, but for the only one of a job."""
    kept = [line for line in lines if not line.startswith(("nemotron", "slurmstepd", "srun: "))]
    return [line for line in kept if line.startswith("[rank")] or kept


def holding(folder: Path, text: str) -> list[str]:
    """Files below a folder that hold a text."""
    return [str(path) for path, content in contents(folder).items() if text.encode() in content]
