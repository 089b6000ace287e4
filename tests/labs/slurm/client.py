"""Slurm's commands, called from this machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from labs.slurm.process import CLEAN, LabError


class Client:
    """Calls Slurm's commands as root.

    Args:
        base: a lab's folder.
    """

    def __init__(self, base: Path) -> None:
        self.base = base

    def environment(self) -> dict[str, str]:
        """What a process must see to use the cluster from this machine; this process's own PATH stays first."""
        path = f"{os.environ.get('PATH', '')}:{CLEAN['PATH']}".lstrip(":")
        return {"SLURM_CONF": str(self.base / "etc" / "slurm.conf"), "PATH": path}

    def run(
        self, *words: str, check: bool = True, timeout: float = 120, cwd: Path | None = None, text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command of Slurm's from this machine, as root.

        Args:
            text: standard input.

        Raises:
            LabError: `check`, and it failed; with what it said.
        """
        environment = {**self.environment(), **CLEAN}
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

    def answers(self, *command: str) -> bool:
        """True where a command succeeds, within 20 s."""
        with suppress(subprocess.TimeoutExpired):
            return self.run(*command, check=False, timeout=20).returncode == 0
        return False

    def usable(self, *nodes: str, states: Sequence[str] = ("idle", "mixed", "allocated")) -> int:
        """How many of these nodes are in one of these states, with no flag such as `*` (does not answer) behind it."""
        asked = ("sinfo", "--noheader", "--Node", f"--nodes={','.join(nodes)}", "--partition=batch", "--format=%T")
        with suppress(subprocess.TimeoutExpired):
            return sum(state in states for state in self.run(*asked, check=False, timeout=20).stdout.split())
        return 0

    def accounted(self, job: str) -> str:
        """State and exit code of a job in sacct's words, such as `FAILED 3:0`; empty until it has heard of it."""
        asked = ("sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={job}", "--format=State,ExitCode")
        return self.run(*asked).stdout.strip().replace("|", " ")
