"""The dry run of a sweep."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nemo_runspec.planning.build import build_plan
from nemo_runspec.planning.planned import PlanRequest
from nemo_runspec.planning.sweep import combinations, plan_each
from nemo_runspec.sweeps.lead import asks_a_sweeper, compose


def preview_sweep(request: PlanRequest, *, as_json: bool) -> int:
    """Shows the plans of a sweep, or what a sweeper would be asked. Nothing else happens."""
    from nemotron.cli.preview import print_search, print_sweep

    if asks_a_sweeper(request):
        search = compose(request, Path("<the sweep's folder>"))
        example = build_plan(replace(request, overrides=search.example())).plan
        print_search(search, example, as_json=as_json)
    else:
        print_sweep([planned.plan for planned in plan_each(request, combinations(request))], as_json=as_json)
    return 0
