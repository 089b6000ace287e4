"""What NeMo-Run's `SlurmExecutor` is given for a plan: one table for the executor and for our own rendering. Pure."""

from __future__ import annotations

import posixpath
from typing import Any

from nemo_runspec.backends.checks import MOUNTED
from nemo_runspec.backends.slurm.fields import SlurmTarget
from nemo_runspec.backends.slurm.spellings import shell_word
from nemo_runspec.field import carried_keys
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.script.layout import JobLayout

_WAIT_FOR_ALL = "--wait=0"
"""Undoes NeMo-Run's `srun --wait=60`: a minute after one task has ended well, it kills all others (seen in 22.05).

The last of two wins, so that a profile's own `srun_args` can say otherwise.
"""


BATCH_LINES = "batch.sh"
"""What the batch script sources (`batch.py`); it lies beside it."""


def executor_arguments(plan: Plan) -> dict[str, Any]:
    """The executor's arguments by name, apart from tunnel, packager and log names: plain lists, tables and scalars."""
    target = target_of(plan, SlurmTarget)
    keys = [declared for declared in carried_keys(type(target)) if declared.name != "tunnel"]
    same = {declared.nemo_run: getattr(target, declared.name) for declared in keys if declared.nemo_run}
    return {
        **same,
        "setup_lines": _setup_lines(plan),
        "nodes": plan.resources.nodes,
        "ntasks_per_node": tasks_per_node(plan),
        "gpus_per_node": plan.resources.gpus_per_node or None,
        "container_image": shell_word(target.container_image) if target.container_image else None,
        "container_mounts": [shell_word(mount) for mount in target.mounts],
        "container_env": list(target.container_env) or None,
        "srun_args": [_WAIT_FOR_ALL, *target.srun_args],
        "additional_parameters": {**_further_options(target), **target.additional_parameters} or None,
        "dependencies": [f"slurm_tunnel://nemo_run/{job}/job/0" for job in target.dependencies],
    }


def _further_options(target: SlurmTarget) -> dict[str, Any]:
    """The keys that are options of sbatch and that NeMo-Run has no argument for."""
    keys = [declared for declared in carried_keys(type(target)) if declared.sbatch and not declared.nemo_run]
    values = {declared.sbatch: getattr(target, declared.name) for declared in keys if declared.sbatch}
    return {option: value for option, value in values.items() if value is not None and value is not False}


def tasks_per_node(plan: Plan) -> int:
    """One Slurm task per node where a launcher of our own starts the processes, else a task for each process."""
    return plan.resources.nproc_per_node if plan.launch.kind == "direct" else 1


def job_name(plan: Plan) -> str:
    """The job's name in Slurm."""
    return f"{target_of(plan, SlurmTarget).job_name_prefix or ''}{plan.name}"


def job_script(plan: Plan) -> str:
    """The job script's path below the job's directory: where NeMo-Run puts an inline `Script`."""
    return f"scripts/{plan.name}.sh"


def sbatch_script(plan: Plan) -> str:
    """The batch script's path below the job's directory."""
    return posixpath.join(plan.job_dir, f"{plan.name}_sbatch.sh")


def job_layout(plan: Plan) -> JobLayout:
    """The job's directory as its tasks see it."""
    return JobLayout(MOUNTED if target_of(plan, SlurmTarget).container_image else plan.job_dir)


def _setup_lines(plan: Plan) -> str:
    """The batch script's `setup_lines`: `batch.sh` first, untraced, then the profile's own."""
    target = target_of(plan, SlurmTarget)
    source = f"{{ set +vx; }} 2> /dev/null; . {plan.job_dir}/{BATCH_LINES}; set -vx"
    return "\n".join((source, *filter(None, (target.setup_lines,))))
