"""The arguments of NeMo-Run's `SlurmExecutor` for a plan: one table for the executor and for our own rendering.

Pure, but for `make_executor`, which imports NeMo-Run. Facts about NeMo-Run in this module were seen in 0.11.1.
"""

from __future__ import annotations

import getpass
import posixpath
from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.checks import MOUNTED
from nemo_runspec.backends.nemorun import import_nemo_run, make_packager, shell_environment
from nemo_runspec.backends.slurm.fields import SlurmTarget
from nemo_runspec.backends.slurm.values import HOST_REMEDY, shell_word
from nemo_runspec.errors import UserError
from nemo_runspec.field import carried_keys
from nemo_runspec.paths import expanded
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.node_identity import NodeIdentity

_WAIT_FOR_ALL = "--wait=0"
"""Undoes NeMo-Run's `srun --wait=60`: a minute after one task has ended well, it kills all others (seen in 22.05).

The last of two wins, so that a profile's own `srun_args` can say otherwise.
"""


BATCH_LINES = "batch.sh"
"""What the batch script sources (`render.py`); it lies beside it."""


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


_UNREAD_PREFIX = "nemotron."
"""NeMo-Run splits `account` where it has no prefix, and stops at None; with `job_details.job_name` it reads neither."""


def make_executor(plan: Plan, secrets: Mapping[str, str] | None = None, *, environment: bool = False) -> Any:
    """A `nemo_run.SlurmExecutor` with the plan's values, for scripts that use NeMo-Run themselves.

    Without SSH, NeMo-Run copies nothing to a tunnel's directory, so jobs must lie where it keeps its experiments: its
    home becomes `remote_job_dir`, unless `NEMORUN_HOME` is set or NeMo-Run was imported before.

    Args:
        secrets: not used; Slurm needs no credential.
        environment: give NeMo-Run the plan's variables too. A plan's own job script exports them itself.

    Raises:
        UserError: no login node; the packager lacks an option; or a variable's name that NeMo-Run would change.
    """
    target = target_of(plan, SlurmTarget)
    run = import_nemo_run(None if target.tunnel == "ssh" else target.remote_job_dir)
    from nemo_run.core.execution.slurm import SlurmJobDetails

    arguments = executor_arguments(plan)
    return run.SlurmExecutor(
        **{**arguments, "job_name_prefix": target.job_name_prefix or _UNREAD_PREFIX},
        job_details=SlurmJobDetails(job_name=job_name(plan)),
        tunnel=_tunnel(target, run),
        packager=make_packager(plan.package),
        torchrun_nproc_per_node=plan.resources.nproc_per_node if plan.launch.kind == "torchrun" else None,
        env_vars=shell_environment(plan) if environment else {},
        launcher=None,
        poll_estimated_start_time=False,
    )


def _tunnel(target: SlurmTarget, run: Any) -> Any:
    """The way to `sbatch`. NeMo-Run takes a key's path literally: `~` is filled in here."""
    if target.tunnel != "ssh":
        return run.LocalTunnel(job_dir="")
    if not target.host:
        raise UserError('host is not set: tunnel = "ssh" needs the login node', remedy=HOST_REMEDY)
    return run.SSHTunnel(
        host=target.host,
        user=target.user or getpass.getuser(),
        port=target.port,
        identity=str(expanded(target.identity)) if target.identity else None,
        job_dir=target.remote_job_dir,
    )


# srun sets these for every task (man srun, OUTPUT ENVIRONMENT VARIABLES).
SRUN_TASK = NodeIdentity(
    node="${SLURM_NODEID:-0}",
    nodes="${SLURM_STEP_NUM_NODES:-${SLURM_NNODES:-1}}",
    task="${SLURM_PROCID:-0}",
    tasks="${SLURM_STEP_NUM_TASKS:-${SLURM_NTASKS:-1}}",
    local="${SLURM_LOCALID:-0}",
    attempt="${SLURM_JOB_ID:-0}-${SLURM_RESTART_COUNT:-0}",
    restarts="${SLURM_RESTART_COUNT:-0}",
    log="log-*_${SLURM_JOB_ID:-0}_${SLURM_RESTART_COUNT:-0}*.out",  # as srun writes it (jobside/main.py)
    # NeMo-Run's srun has --kill-on-bad-exit=1, which is right where a task dies without a word.
    requeues=True,
    signals_all=True,
    ends_all=True,
)
