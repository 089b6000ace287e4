"""The most that a plan may cost, in GPU-hours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nemo_runspec.duration import hours
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Plan, Resources
from nemo_runspec.plans.target import Target
from nemo_runspec.source import Source


@dataclass(frozen=True)
class Cost:
    """What a plan may use at most.

    Args:
        gpus: of one job, over all nodes; None where the plan does not say.
        runs: how often the job may run: tasks of a job array, and each once more per retry.
        gpu_hours: gpus x runs x time limit; None where there is no limit or the GPUs are not known.
    """

    gpus: int | None
    runs: int
    gpu_hours: float | None


def cost_of(plan: Plan) -> Cost:
    """The cost of a plan."""
    return _cost(plan.target, plan.resources)


def _cost(target: Target, resources: Resources) -> Cost:
    """A backend whose profile asks for GPUs or runs in its own ways says so in its target."""
    gpus, runs = target.gpus(resources), target.runs()
    if gpus == 0:
        return Cost(0, runs, 0.0)
    limit = _hours_at_most(resources.time)
    return Cost(gpus, runs, None if limit is None or gpus is None else gpus * runs * limit)


def _hours_at_most(time: str | None) -> float | None:
    """Hours, None where there is no limit or none is known yet, as with a placeholder."""
    try:
        return hours(time) if time else None
    except ValueError:
        return None


def gpu_hours(plan: Plan) -> float | None:
    """At most so many GPU-hours; None where there is no limit."""
    return cost_of(plan).gpu_hours


class OverCeiling(UserError):
    """A plan that may use more than its profile allows. A person may want it all the same."""


def in_limits(plan: Plan, *, over: bool = False) -> Plan:
    """The plan, held against the profile's `max_gpu_hours`.

    Args:
        over: a person wants it although it passes that, which is then a warning.

    Raises:
        OverCeiling: it may use more.
    """
    try:
        _check_gpu_hours(plan)
    except OverCeiling as error:
        if not over:
            raise
        return replace(plan, warnings=(*plan.warnings, f"{error.what}: wanted all the same"))
    return plan


def _check_gpu_hours(plan: Plan) -> None:
    problem = too_many_gpu_hours(
        plan.run["env"], plan.target, plan.resources, plan.sources.get("run.env.max_gpu_hours")
    )
    if problem is not None:
        raise problem


def too_many_gpu_hours(
    env: Mapping[str, Any], target: Target, resources: Resources, source: Source | None
) -> UserError | None:
    """What speaks against a job of such a profile; None where its `max_gpu_hours` holds, which stands at `source`."""
    ceiling = env.get("max_gpu_hours")
    if ceiling is None:
        return None
    cost = _cost(target, resources)
    if cost.gpu_hours is not None and cost.gpu_hours <= ceiling:
        return None
    return OverCeiling(
        f"the plan may use {_amount(cost)} ({_shape(resources, cost)}); the profile allows {ceiling:,}",
        where=source.place() if source else None,
        remedy=_remedy(env, target, cost),
    )


def _amount(cost: Cost) -> str:
    if cost.gpus is None:
        return "an unknown number of GPU-hours"
    return "GPU-hours without a limit" if cost.gpu_hours is None else f"{cost.gpu_hours:,.1f} GPU-hours"


def _shape(resources: Resources, cost: Cost) -> str:
    gpus = "GPUs unknown" if cost.gpus is None else f"{cost.gpus} GPUs"
    runs = f" x {cost.runs} runs" if cost.runs > 1 else ""
    return f"{gpus}{runs} x {resources.time or 'no time limit'}"


def _remedy(env: Mapping[str, Any], target: Target, cost: Cost) -> str:
    away = "run.env.max_gpu_hours=null takes the ceiling away"
    if cost.gpu_hours is not None:
        return f"ask for less, or raise it for this run: run.env.max_gpu_hours={int(cost.gpu_hours) + 1}"
    if cost.gpus is None:
        return f"say how many GPUs there are, such as run.env.{target.gpus_key}=8; or {away}"
    return (
        f"set a limit: run.env.time=HH:MM:SS; or {away}" if "time" in env else f"jobs there have no time limit; {away}"
    )
