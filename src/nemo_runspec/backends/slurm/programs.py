"""The programs that go with jobs on Slurm: `slurm.py`, made of `jobside/`, and the check of a node."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from nemo_runspec.backends.base import Program
from nemo_runspec.backends.slurm.fields import SlurmTarget
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.script.programs import PROGRAMS, REGISTERS, PythonProgram, checks_programs, program, programs

_JOBSIDE = Path(__file__).with_name("jobside")
_SHELL = ("slurm.sh", "slurm_fallback.sh")
_SHARED = (
    "artifacts", "exit_status", "processes", "records", "registration", "secrets", "signals", "text",
    "values",
)  # fmt: skip
"""Modules that it has in common with the job's own supervisor."""

_SLURM = PythonProgram(
    "nemo_runspec.backends.slurm.jobside.main",
    ("backends/slurm/jobside", "lines.py", *REGISTERS, *(f"jobside/{name}.py" for name in _SHARED)),
    supervises=True,
)
_HEALTH = PythonProgram(
    "nemo_runspec.backends.slurm.health.net", ("backends/slurm/health/net.py", "jobside/address.py")
)


def programs_of(plan: Plan) -> tuple[Program, ...]:
    """What goes with a plan."""
    health = (_health(),) if target_of(plan, SlurmTarget).health_check else ()
    return (*slurm_programs(), *health, *programs(*checks_programs(plan)))


@cache
def slurm_programs() -> tuple[Program, ...]:
    """What goes with every job."""
    shell = (program(name, (_JOBSIDE / name).read_text(encoding="utf-8")) for name in _SHELL)
    return (*programs(*PROGRAMS), program("slurm.py", _SLURM.text()), *shell)


@cache
def _health() -> Program:
    return program("health.py", _HEALTH.text())
