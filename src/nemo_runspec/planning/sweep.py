"""A sweep: one plan for every combination of the values that overrides name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nemo_runspec.config.overrides import expand_sweep
from nemo_runspec.planning.build import build_plan
from nemo_runspec.planning.config_choice import choose_yaml
from nemo_runspec.planning.planned import Planned, PlanRequest
from nemo_runspec.planning.sweep_cache import Shared
from nemo_runspec.plans.model import Plan

LARGEST = 1000
"""A sweep beyond this is taken for a mistake."""


def build_sweep(request: PlanRequest) -> list[Plan]:
    """The plans of a sweep, in Hydra's order, each with a name of its own.

    Raises:
        UserError: an override that cannot be read, more than `LARGEST` combinations, or a plan that cannot be made.
    """
    return [planned.plan for planned in plan_each(request, combinations(request))]


def combinations(request: PlanRequest) -> list[tuple[str, ...]]:
    """The overrides of every run.

    Raises:
        UserError: an override that cannot be read, or more than `LARGEST` combinations.
    """
    from nemo_runspec.config.loader import group_loader  # brings Hydra

    choice = choose_yaml(request.recipe, request.config)
    return expand_sweep(request.overrides, LARGEST, group_loader(choice) if choice else None)


def plan_each(request: PlanRequest, runs: Sequence[tuple[str, ...]]) -> list[Planned]:
    """One plan for each of the runs' overrides; files and git are looked at once for all.

    Raises:
        UserError: a plan that cannot be made.
    """
    shared = Shared()
    return [build_plan(replace(request, overrides=overrides), shared) for overrides in runs]
