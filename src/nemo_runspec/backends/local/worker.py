"""Local jobs: a process of this machine, in an environment made from what the recipe declares."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from nemo_runspec import envs
from nemo_runspec.artifacts.wandb import PACKAGES, wandb_tasks
from nemo_runspec.backends.local import processes
from nemo_runspec.backends.local.fields import check_system
from nemo_runspec.backends.local.render import render
from nemo_runspec.backends.worker import InputWorker, ShellWorker, WorkerStatus
from nemo_runspec.console import Say
from nemo_runspec.errors import UserError
from nemo_runspec.lines import text_lines
from nemo_runspec.plans.model import Plan
from nemo_runspec.records.lifecycle import Launcher
from nemo_runspec.records.process import is_alive, process_of
from nemo_runspec.records.record import JobRecord
from nemo_runspec.script.enter import ShellRequest
from nemo_runspec.script.layout import JobLayout

_NOT_OURS = ("PYTHONHOME", "__PYVENV_LAUNCHER__", "SHELLOPTS", "BASHOPTS")
_NOT_WITH_AN_ENV = ("PYTHONPATH", "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "CONDA_PREFIX")
_PIECE = 1 << 20
_REDRAW = "0.1"
"""Seconds between two looks of a person at a line that is not whole yet."""


@dataclass(frozen=True)
class LocalEnvironments:
    """The `bin` folders of a job's environments.

    Args:
        recipe: its own, None where it asks for none.
        wandb: from which W&B is told of it, None for a job of which
            it is not: W&B's package asks for many others, which need not fit those of the recipe.
    """

    recipe: Path | None = None
    wandb: Path | None = None


class LocalWorker(InputWorker, ShellWorker):
    """Makes local jobs ready, starts, finds and ends them."""

    def check(self, plan: Plan) -> None:
        """This machine has to be Linux: what runs beside a job looks its processes up as Linux has them.

        Raises:
            UserError: it is another system, such as macOS.
        """
        check_system()

    def prepare(self, plan: Plan, say: Say) -> LocalEnvironments:
        """The environments it runs in. Raises `UserError`."""
        return LocalEnvironments(envs.ensure_env(plan.python, say), _wandb_environment(plan, say))

    def start(
        self, plan: Plan, prepared: LocalEnvironments, secrets: Mapping[str, str], *, stdin: int | None = None
    ) -> LocalWork:
        """Starts the job script in the directory of the call, or in the code package where there is one."""
        envs.note_use(Path(plan.job_dir), (prepared.recipe, prepared.wandb))
        environment = {**job_environment(os.environ, secrets, prepared.recipe), "NEMOTRON_REDRAW": _REDRAW}
        if prepared.wandb is not None:
            environment["NEMOTRON_WANDB_PYTHON"] = str(prepared.wandb / "python")
        command, folder = render(plan).command, _working_directory(plan)
        process = processes.start(plan.job_dir, command, environment, folder, stdin=stdin)
        return LocalWork(plan.job_dir, process)

    def address(self, record: JobRecord, folder: Path) -> str:
        """This machine's own."""
        return "127.0.0.1"

    def shell(self, record: JobRecord, folder: Path, entry: ShellRequest) -> Sequence[str]:
        """As `ShellWorker.shell`: nothing lies between."""
        return entry.words

    def status(self, record: JobRecord, folder: Path) -> WorkerStatus:
        """Running while one of the job's processes is, else lost."""
        script = record.process
        if script is not None and is_alive(script):
            return WorkerStatus("running", f"nemotron itself was killed; process {script.pid} still runs")
        left = processes.members(str(folder), 0)
        if left:
            return WorkerStatus("running", f"nemotron itself was killed; {len(left)} of the job's processes still run")
        return WorkerStatus("lost", "nemotron was killed, and the job left no exit marker")

    def end(self, record: JobRecord, folder: Path, grace: float) -> str:
        """TERM to the job script, or to all where it is gone; KILL after `grace` seconds. Raises `UserError`."""
        script = record.process if record.process is not None and is_alive(record.process) else None
        session = script.pid if script else 0
        if script:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(script.pid, signal.SIGTERM)
        processes.end_leftovers(str(folder), session, grace=grace, tell=script is None)
        if not processes.kill_all(str(folder), session):
            raise UserError(f"processes of job '{record.name}' cannot be ended", where=str(folder))
        return ""

    def settle(self, record: JobRecord, folder: Path) -> bool:
        """Its output went through its supervisor: there is no more of it."""
        return True

    def clear(self, record: JobRecord, folder: Path) -> None:
        """Nothing is left of processes that have ended."""


class LocalWork:
    """A job script that runs, and its processes."""

    container: str | None = None
    doubt = ""

    def __init__(self, job_dir: str, process: subprocess.Popen[bytes]) -> None:
        self._job_dir = job_dir
        self._process = process
        self._pipe: IO[bytes] = process.stdout  # type: ignore[assignment]
        self.process: Launcher | None = process_of(process.pid)
        os.set_blocking(self._pipe.fileno(), False)

    def fileno(self) -> int:
        """The pipe that holds output and errors."""
        return self._pipe.fileno()

    def read(self) -> bytes | None:
        """Up to a megabyte of it; empty at its end."""
        try:
            return os.read(self._pipe.fileno(), _PIECE)
        except BlockingIOError:
            return None

    def poll(self) -> int | None:
        """The job script's status once it has ended."""
        return self._process.poll()

    def terminate(self) -> None:
        """TERM to the job script and what it runs in the foreground."""
        processes.terminate(self._process)

    def kill(self) -> None:
        """KILL to everything of the job."""
        processes.kill_all(self._job_dir, self._process.pid)

    def end_leftovers(self, grace: float) -> int:
        """TERM and KILL to what the job script left running."""
        return processes.end_leftovers(self._job_dir, self._process.pid, grace=grace)

    def cause(self, status: int) -> str:
        """The exit marker says all there is."""
        return ""

    def close(self) -> str:
        """Kills what there still is, and gives the pipe back."""
        ended = processes.kill_all(self._job_dir, self._process.pid)
        self._pipe.close()
        return "" if ended else "some of its processes cannot be ended"


def _wandb_environment(plan: Plan, say: Say) -> Path | None:
    """Without it the job runs all the same, and its metrics stay here."""
    if not wandb_tasks(plan):
        return None
    try:
        return envs.ensure_env(PACKAGES, say, "W&B's")
    except UserError as error:
        what = " and ".join(wandb_tasks(plan))
        say(f"warning: {what} will not be told to W&B: {text_lines(error.what)[-1].strip()}")
        return None


def _working_directory(plan: Plan) -> Path:
    return Path.cwd() if plan.package.kind == "none" else Path(JobLayout(plan.job_dir).code)


def job_environment(base: Mapping[str, str], secrets: Mapping[str, str], bin_dir: Path | None) -> dict[str, str]:
    """What the job script inherits: this process's environment, secrets, and the recipe's Python first on PATH.

    nemotron's own Python settings do not reach a recipe that has an environment of its own.
    """
    result = {name: value for name, value in base.items() if name not in _NOT_OURS}
    if bin_dir is not None:
        result = {name: value for name, value in result.items() if name not in _NOT_WITH_AN_ENV}
        result["PATH"] = f"{bin_dir}{os.pathsep}{result.get('PATH', os.defpath)}"
        result["VIRTUAL_ENV"] = str(bin_dir.parent)
    return {**result, **secrets}
