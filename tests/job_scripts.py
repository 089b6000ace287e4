"""Plans made directly, and their job scripts really run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from labs.slurm.process import thread_states
from waiting import until

from nemo_runspec.backends.local.fields import LocalTarget
from nemo_runspec.packaging.bundle import digest
from nemo_runspec.plans.model import (
    Bundle,
    BundleFile,
    EnvVar,
    Launch,
    Package,
    Plan,
    PythonEnv,
    RecipeRef,
    Resources,
)
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.programs import PROGRAMS, checks_programs, program_text
from nemo_runspec.script.render import render_job_script

NAME = "test-job-1120-k2m4p6r8"


def plan_for(
    top: Path,
    script: str = "",
    *,
    name: str = NAME,
    executor: str = "local",
    launch: str = "direct",
    nodes: int = 1,
    processes: int = 1,
    env: dict[str, str] | None = None,
    python: PythonEnv = PythonEnv(),  # noqa: B008 (frozen)
    config: dict[str, Any] | None = None,
    **launch_values: Any,
) -> Plan:
    """A plan whose recipe is one script with this text."""
    source = top / "source" / "main.py"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(textwrap.dedent(script), encoding="utf-8")
    file = BundleFile("recipes/test/main.py", str(source), source.stat().st_size)
    bundle = Bundle((file,), file.size, digest({file.path: source.read_bytes()}))
    return Plan(
        name=name,
        recipe=RecipeRef("test/main", "test/main", str(source)),
        config_name=None,
        executor=executor,
        mode="run",
        profile=None,
        env_file=None,
        job_dir=str(top / "jobs" / name),
        launch=Launch(launch, file.path, **{"takes_config": False, **launch_values}),
        python=python,
        resources=Resources(nodes, 0, processes),
        env=tuple(EnvVar(key, value, "test") for key, value in (env or {}).items()),
        secrets=(),
        bundle=bundle,
        package=Package(),
        consumes=(),
        produces=(),
        run={"env": {}},
        config=config or {},
        sources={},
        target=LocalTarget(),
    )


def lay_out(plan: Plan) -> JobLayout:
    """Writes what a job script needs beside it."""
    layout = JobLayout(plan.job_dir)
    for file in plan.bundle.files:
        target = Path(layout.bundle) / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(Path(file.source).read_bytes())
    Path(layout.job_script).write_text(render_job_script(plan, layout), encoding="utf-8")
    for name in (*PROGRAMS, *checks_programs(plan)):
        (Path(layout.root) / name).write_text(program_text(name), encoding="utf-8")
    return layout


def environment(**extra: str) -> dict[str, str]:
    """This process's environment with its own Python first, and nothing a launcher would read."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "NEMOTRON"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "PATH": path, **extra}


def start_script(layout: JobLayout, cwd: Path, **extra: str) -> subprocess.Popen[str]:
    """Starts `bash job.sh`; output and errors in one pipe."""
    return subprocess.Popen(
        ["bash", layout.job_script],
        cwd=cwd,
        env=environment(**extra),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run_script(plan: Plan, cwd: Path, timeout: float = 120, **extra: str) -> tuple[int, str]:
    """Runs a plan's job script; its exit code and output."""
    process = start_script(lay_out(plan), cwd, **extra)
    output, _ = process.communicate(timeout=timeout)
    return process.returncode, output


def alive(pid: int) -> bool:
    """Whether any thread of a process does anything more; one that only waits to be reaped does not."""
    return bool(thread_states(pid) - {"Z", "X"})


def kill(pid: int) -> None:
    """Kills a process. It is gone then, not only told: until it is, it may still read, write and see others end."""
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid), f"the end of process {pid}")


def pause(pid: int) -> None:
    """Stops a process until it gets CONT. It stands still then, not only told."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: thread_states(pid) == {"T"}, f"the stop of process {pid}")
