"""A sweep: one plan for every combination of the values that overrides name."""

from __future__ import annotations

from dataclasses import replace

from nemo_runspec.config.compose import group_loader
from nemo_runspec.config.overrides import expand_sweep
from nemo_runspec.planning.build import PlanRequest, build_plan, choose_yaml
from nemo_runspec.planning.model import Plan

LARGEST = 1000
"""A sweep beyond this is taken for a mistake."""


def build_sweep(request: PlanRequest) -> list[Plan]:
    """The plans of a sweep, in Hydra's order, each with a name of its own.

    Raises:
        UserError: an override that cannot be read, more than `LARGEST` combinations, or a plan that cannot be made.
    """
    choice = choose_yaml(request.recipe, request.config)
    combinations = expand_sweep(request.overrides, LARGEST, group_loader(choice) if choice else None)
    return [build_plan(replace(request, overrides=combination)).plan for combination in combinations]
