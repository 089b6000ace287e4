"""NeMo-Run's `DGXCloudExecutor` for a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.dgxcloud.fields import DgxCloudTarget
from nemo_runspec.backends.nemorun import import_nemo_run, make_packager, need, shell_environment
from nemo_runspec.planning.model import Plan

_SAME = (
    "base_url", "kube_apiserver_url", "client_id", "project_name", "container_image", "pvc_nemo_run_dir",
    "distributed_framework", "launched_from_cluster", "retries",
)  # fmt: skip


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
    target: DgxCloudTarget = plan.target
    return import_nemo_run().DGXCloudExecutor(
        **{name: getattr(target, name) for name in _SAME},
        client_secret=need(secrets, plan, "client_secret"),
        nodes=plan.resources.nodes,
        gpus_per_node=plan.resources.gpus_per_node,
        nprocs_per_node=plan.resources.nproc_per_node,
        pvcs=[dict(claim) for claim in target.pvcs],
        custom_spec=dict(target.custom_spec),
        MAX_ARGS_CHARS=target.max_args_chars,
        packager=make_packager(plan.package),
        env_vars=shell_environment(plan) if environment else {},
        launcher=None,
    )
