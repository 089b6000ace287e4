"""NeMo-Run's `LeptonExecutor` for a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.lepton.fields import LeptonTarget
from nemo_runspec.backends.nemorun import import_nemo_run, make_packager, plain_environment
from nemo_runspec.planning.model import Plan

_SAME = (
    "container_image", "nemo_run_dir", "resource_shape", "node_group", "node_reservation", "head_resource_shape",
    "shared_memory_size", "can_be_preempted", "can_preempt", "queue_priority", "ray_version", "launched_from_cluster",
)  # fmt: skip


def make_executor(plan: Plan, secrets: Mapping[str, str] | None = None, *, environment: bool = False) -> Any:
    """A `nemo_run.LeptonExecutor` with the plan's values, for scripts that use NeMo-Run themselves.

    It takes a node group by its name only, wants `from` in every mount, and sends no `custom_spec` (0.11.1).

    Args:
        secrets: not used; Lepton's client has its own login.
        environment: give NeMo-Run the plan's variables too. A plan's own job script exports them itself.
    """
    target: LeptonTarget = plan.target
    return import_nemo_run().LeptonExecutor(
        **{name: getattr(target, name) for name in _SAME},
        nodes=plan.resources.nodes,
        gpus_per_node=plan.resources.gpus_per_node,
        nprocs_per_node=plan.resources.nproc_per_node,
        mounts=[dict(mount) for mount in target.mounts],
        secret_vars=dict(target.secret_vars),
        image_pull_secrets=list(target.image_pull_secrets),
        pre_launch_commands=list(target.pre_launch_commands),
        custom_spec=dict(target.custom_spec),
        packager=make_packager(plan.package),
        env_vars=plain_environment(plan) if environment else {},
        launcher=None,
    )
