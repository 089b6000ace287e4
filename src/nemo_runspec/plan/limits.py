"""How much a plan may cost."""

from __future__ import annotations

import re

from nemo_runspec.errors import UserError
from nemo_runspec.plan.model import Plan, Resources

_TIME = re.compile(r"^(?:(?P<days>\d+)-)?(?P<rest>\d+(?::\d+){0,2})$")


def hours(time: str) -> float | None:
    """A Slurm time limit in hours, None for one without an end.

    The forms are sbatch's own: `M`, `M:S`, `H:M:S`, `D-H`, `D-H:M`, `D-H:M:S`.

    Raises:
        ValueError: not one of these.
    """
    if time.strip().upper() in ("INFINITE", "UNLIMITED"):
        return None
    match = _TIME.match(time.strip())
    if match is None:
        raise ValueError(f"not a time limit: {time!r}")
    parts = [int(part) for part in match["rest"].split(":")]
    if match["days"] is not None:
        h, m, s = [*parts, 0, 0][:3]
        return int(match["days"]) * 24 + h + m / 60 + s / 3600
    if len(parts) == 3:
        return parts[0] + parts[1] / 60 + parts[2] / 3600
    return parts[0] / 60 + (parts[1] / 3600 if len(parts) == 2 else 0)


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
