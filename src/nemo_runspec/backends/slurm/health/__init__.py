"""The profile's `health_check`: before the command, the batch script asks every node whether it is fit for the job.

`jobside/health.py` is the batch script's part, `node.sh` and `net.py` what runs on every node, in the job's own
environment.
"""

from __future__ import annotations

import shlex

from nemo_runspec.backends.base import RenderedFile
from nemo_runspec.backends.slurm.cluster import program
from nemo_runspec.backends.slurm.fields import SlurmTarget
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of

_SECONDS, _WITH_TORCH = 60, 180
"""Seconds for the check once a container has started; torch is slow to import from a network file system."""


def health_seconds(plan: Plan) -> int:
    """How long it may take; 0 where the profile does not want it."""
    if not target_of(plan, SlurmTarget).health_check:
        return 0
    return _WITH_TORCH if _wants_torch(plan) else _SECONDS


def health_files(plan: Plan) -> tuple[RenderedFile, ...]:
    """The nodes' part, which the batch shell hands them with `health.py`; none where the profile does not want it."""
    if not target_of(plan, SlurmTarget).health_check:
        return ()
    return (RenderedFile("health check of a node", "health.sh", _node_script(plan)),)


def _node_script(plan: Plan) -> str:
    """With the plan's variables: a setting such as `NCCL_SOCKET_IFNAME` decides whether nodes reach each other."""
    target = target_of(plan, SlurmTarget)
    mounts = [mount.partition(":")[2] for mount in target.mounts]
    lines = (
        *(f"export {variable.name}={shlex.quote(variable.value)}" for variable in plan.env),
        f"health_gpus={plan.resources.gpus_per_node}",
        f"health_torch={'yes' if _wants_torch(plan) else ''}",
        f"health_mounts=({shlex.join(mounts)})",
        program("health/node.sh").strip(),
        'health_main "$@"',
    )
    return "\n".join(lines) + "\n"


def _wants_torch(plan: Plan) -> bool:
    return plan.launch.kind == "torchrun"
