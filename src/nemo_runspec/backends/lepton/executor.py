"""NeMo-Run's `LeptonExecutor` for a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.nemorun import import_nemo_run, make_packager, plain_environment, same_arguments
from nemo_runspec.plans.model import Plan


def make_executor(plan: Plan, secrets: Mapping[str, str] | None = None, *, environment: bool = False) -> Any:
    """A `nemo_run.LeptonExecutor` with the plan's values, for scripts that use NeMo-Run themselves.

    It takes a node group by its name only, wants `from` in every mount, and sends no `custom_spec` (0.11.1).

    Args:
        secrets: not used; Lepton's client has its own login.
        environment: give NeMo-Run the plan's variables too. A plan's own job script exports them itself.
    """
    return import_nemo_run().LeptonExecutor(
        **same_arguments(plan.target),
        nodes=plan.resources.nodes,
        gpus_per_node=plan.resources.gpus_per_node,
        nprocs_per_node=plan.resources.nproc_per_node,
        packager=make_packager(plan.package),
        env_vars=plain_environment(plan) if environment else {},
        launcher=None,
    )
