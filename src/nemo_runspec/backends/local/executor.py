"""NeMo-Run's `LocalExecutor` for a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_runspec.backends.nemorun import import_nemo_run, plain_environment
from nemo_runspec.plans.model import Plan


def make_executor(plan: Plan, secrets: Mapping[str, str] | None = None, *, environment: bool = False) -> Any:
    """A `nemo_run.LocalExecutor` with the plan's values, for scripts that use NeMo-Run themselves.

    nemotron's own local jobs do not run through it: it has no exit codes, copies nothing and cannot detach.

    Args:
        secrets: not used; this machine needs no credential.
        environment: give NeMo-Run the plan's variables too. A plan's own job script exports them itself.
    """
    return import_nemo_run().LocalExecutor(
        ntasks_per_node=plan.resources.nproc_per_node,
        nodes=1,
        env_vars=plain_environment(plan) if environment else {},
        launcher=None,
    )
