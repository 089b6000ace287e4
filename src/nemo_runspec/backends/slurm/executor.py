"""NeMo-Run's `SlurmExecutor` for a plan. Facts about NeMo-Run in this module were seen in 0.11.1."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.nemorun import import_nemo_run, make_packager, shell_environment
from nemo_runspec.backends.slurm.arguments import executor_arguments, job_name
from nemo_runspec.backends.slurm.fields import SlurmTarget
from nemo_runspec.backends.slurm.paths import HOST_REMEDY
from nemo_runspec.errors import UserError
from nemo_runspec.paths import expanded
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of

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
