"""NeMo-Run's executor for a plan of a cloud, for scripts that use NeMo-Run themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.cloud.fields import CloudTarget
from nemo_runspec.backends.nemorun import (
    import_nemo_run,
    make_packager,
    need,
    plain_environment,
    same_arguments,
    shell_environment,
)
from nemo_runspec.field import keys_of
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of


def make_executor(plan: Plan, secrets: Mapping[str, str] | None = None, *, environment: bool = False) -> Any:
    """The executor that the plan's target names, with the plan's values.

    Args:
        secrets: must hold the credentials among the platform's profile keys, which no plan holds.
        environment: give NeMo-Run the plan's variables too. A plan's own job script exports them itself.

    Raises:
        UserError: a credential is not there; or a variable's name that NeMo-Run would change.
    """
    target = target_of(plan, CloudTarget)
    credentials = [key for key in keys_of(type(target)) if key.secret and key.nemo_run]
    variables = shell_environment if target.nemo_run_exports else plain_environment
    return getattr(import_nemo_run(), target.nemo_run_executor)(
        **same_arguments(target),
        **{str(key.nemo_run): need(secrets, plan, key.name) for key in credentials},
        nodes=plan.resources.nodes,
        gpus_per_node=plan.resources.gpus_per_node,
        nprocs_per_node=plan.resources.nproc_per_node,
        packager=make_packager(plan.package),
        env_vars=variables(plan) if environment else {},
        launcher=None,
    )
