"""NeMo-Run's `DockerExecutor` for a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.docker.fields import DockerTarget
from nemo_runspec.backends.nemorun import import_nemo_run, make_packager, plain_environment, same_arguments
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of


def make_executor(plan: Plan, secrets: Mapping[str, str] | None = None, *, environment: bool = False) -> Any:
    """A `nemo_run.DockerExecutor` with the plan's values, for scripts that use NeMo-Run themselves.

    Args:
        secrets: not used; Docker needs no credential.
        environment: give NeMo-Run the plan's variables too. A plan's own job script exports them itself.
    """
    target = target_of(plan, DockerTarget)
    return import_nemo_run().DockerExecutor(
        **same_arguments(target),
        ntasks_per_node=plan.resources.nproc_per_node,
        volumes=list(target.volumes),
        packager=make_packager(plan.package),
        env_vars=plain_environment(plan) if environment else {},
        launcher=None,
    )
