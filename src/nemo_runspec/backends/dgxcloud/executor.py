"""NeMo-Run's `DGXCloudExecutor` for a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.nemorun import import_nemo_run, make_packager, need, same_arguments, shell_environment
from nemo_runspec.plans.model import Plan


def make_executor(plan: Plan, secrets: Mapping[str, str] | None = None, *, environment: bool = False) -> Any:
    """A `nemo_run.DGXCloudExecutor` with the plan's values, for scripts that use NeMo-Run themselves.

    NeMo-Run 0.11.1 writes the client secret into its job files unless the experiment is made with
    `serialize_metadata_for_scripts=False`.

    Args:
        secrets: must hold `client_secret`, which no plan holds.
        environment: give NeMo-Run the plan's variables too. A plan's own job script exports them itself.

    Raises:
        UserError: no client secret; or a variable's name that NeMo-Run would change.
    """
    return import_nemo_run().DGXCloudExecutor(
        **same_arguments(plan.target),
        client_secret=need(secrets, plan, "client_secret"),
        nodes=plan.resources.nodes,
        gpus_per_node=plan.resources.gpus_per_node,
        nprocs_per_node=plan.resources.nproc_per_node,
        packager=make_packager(plan.package),
        env_vars=shell_environment(plan) if environment else {},
        launcher=None,
    )
