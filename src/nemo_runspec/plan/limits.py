"""How much a plan may cost."""

from __future__ import annotations

from nemo_runspec.duration import hours
from nemo_runspec.errors import UserError
from nemo_runspec.plan.model import Plan, Resources


def gpu_hours(resources: Resources) -> float | None:
    """nodes x GPUs per node x time limit; None where there is no limit."""
    gpus = resources.nodes * resources.gpus_per_node
    if gpus == 0:
        return 0.0
    limit = hours(resources.time) if resources.time else None
    return None if limit is None else gpus * limit


def check_gpu_hours(plan: Plan) -> None:
    """Raises `UserError` where a plan may use more than the profile's `max_gpu_hours`."""
    ceiling = plan.run["env"].get("max_gpu_hours")
    if ceiling is None:
        return
    cost = gpu_hours(plan.resources)
    if cost is not None and cost <= ceiling:
        return
    source = plan.sources.get("run.env.max_gpu_hours")
    shape = f"{plan.resources.nodes} nodes x {plan.resources.gpus_per_node} GPUs x {plan.resources.time or 'no limit'}"
    amount = f"{cost:,.1f} GPU-hours" if cost is not None else "GPU-hours without a limit"
    raised = f"run.env.max_gpu_hours={int(cost) + 1}" if cost is not None else "run.env.time=HH:MM:SS"
    raise UserError(
        f"the plan may use {amount} ({shape}); the profile allows {ceiling:,}",
        where=source.place() if source else None,
        remedy=f"ask for less, or raise it for this run: {raised}",
    )
