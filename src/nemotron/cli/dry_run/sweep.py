"""The dry run of a sweep: its runs, a line each, or what a sweeper would be asked."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.base import Rendering
from nemo_runspec.planning.build import build_plan
from nemo_runspec.planning.limits import cost_of
from nemo_runspec.planning.planned import PlanRequest
from nemo_runspec.planning.sweep import combinations, plan_each
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.wandb import in_group
from nemo_runspec.sweeps.lead import asks_a_sweeper, compose
from nemo_runspec.sweeps.model import new_group
from nemo_runspec.text import clean, count
from nemotron.cli.dry_run.facts import at_most, nothing
from nemotron.cli.dry_run.files import excerpt
from nemotron.cli.dry_run.rows import value_text
from nemotron.cli.dry_run.show import as_json
from nemotron.cli.pager import show
from nemotron.cli.text import paint, table

if TYPE_CHECKING:
    from nemo_runspec.sweeps.remote import Batch
    from nemo_runspec.sweeps.search import Search

_ARRAYS = 3
"""Job arrays of a sweep whose batch scripts are shown."""


def preview_sweep(request: PlanRequest, *, machine_readable: bool) -> int:
    """Shows the plans of a sweep, or what a sweeper would be asked. Nothing else happens."""
    if asks_a_sweeper(request):
        search = compose(request, Path("<the sweep's folder>"))
        example = build_plan(replace(request, overrides=search.example())).plan
        example = in_group(example, new_group(example.labels, example.recipe.path))
        if machine_readable:
            _print_json(_search_as_json(search, example))
        else:
            show("\n".join(_search_lines(search, example)))
        return 0
    plans = [planned.plan for planned in plan_each(request, combinations(request))]
    group = new_group(plans[0].labels, plans[0].recipe.path)
    plans = [in_group(plan, group) for plan in plans]  # as they are sent
    if machine_readable:
        _print_json(_sweep_as_json(plans, group))
    else:
        show("\n".join(_sweep_lines(plans, group)))
    return 0


def _print_json(data: Any) -> None:
    print(json.dumps(data, indent=2, ensure_ascii=False))


def _sweep_as_json(plans: list[Plan], group: str) -> list[dict[str, Any]]:
    """All plans whole, with their texts."""
    together = {i: file for batch, files in _arrays(plans, group) for i, file in zip(batch.members, files, strict=True)}
    return [
        as_json(plan, together.get(i) or get_backend(plan.executor).make_rendering(plan))
        for i, plan in enumerate(plans)
    ]


def _sweep_lines(plans: list[Plan], group: str) -> list[str]:
    """The runs, what they may cost together, and the batch scripts of the first arrays."""
    arrays = _arrays(plans, group)
    lines = [paint(f"{count(len(plans), 'run')}", "bold")]
    lines += table([str(i), plan.name, clean("  ".join(plan.overrides))] for i, plan in enumerate(plans))
    lines += ["", f"together: {at_most([cost_of(plan) for plan in plans])}"]
    for batch, renderings in arrays[:_ARRAYS]:
        first = plans[batch.members[0]].name
        lines += ["", f"one job array of {count(len(batch.members), 'run')}, the first of them {first}:"]
        if sent := renderings[0].sent_file:
            lines += excerpt(sent, renderings[0])
    if len(arrays) > _ARRAYS:
        lines += ["", f"and {count(len(arrays) - _ARRAYS, 'more job array')}"]
    return [*lines, "", f"The first run, whole: leave -m out and give its overrides. {nothing(plans[0])}"]


def _arrays(plans: list[Plan], group: str) -> list[tuple[Batch, Sequence[Rendering]]]:
    """The runs that a platform takes together, with what would be sent for each."""
    if not get_backend(plans[0].executor).remote:
        return []
    from nemo_runspec.sweeps.remote import renderings_of

    return renderings_of(group, plans)


def _search_as_json(search: Search, example: Plan) -> dict[str, Any]:
    rendering = get_backend(example.executor).make_rendering(example)
    asked = {"sweeper": search.name, "settings": search.settings, "space": search.space}
    return {**asked, "example": as_json(example, rendering)}


def _search_lines(search: Search, example: Plan) -> list[str]:
    """What a sweeper of Hydra's would be asked, and one plan of those it may lead to."""
    runs = count(search.trials, "run") if search.trials is not None else "Runs"
    fixed = ", ".join(clean(text) for text in example.overrides[: len(search.fixed)])
    settings = {key: value for key, value in search.settings.items() if value is not None and key != "params"}
    return [
        paint(f"{runs} of {example.recipe.path}, chosen by {search.name}", "bold"),
        "It chooses the values of a run when those before it have ended, so that only their range is known now:",
        *table((key, clean(value)) for key, value in search.space.items()),
        f"the same in all runs: {fixed or 'nothing'}",
        paint("settings", "bold"),
        *table((key, _setting(value)) for key, value in settings.items()),
        "",
        f"One run, whole: leave -m and hydra… out and give values: {clean(shlex.join(example.overrides))}",
        nothing(example),
    ]


def _setting(value: Any) -> str:
    """A sweeper's setting; of what is made from a class, such as Optuna's sampler, the class."""
    made_from = value.get("_target_") if isinstance(value, dict) else None
    return clean(str(made_from)) if made_from else value_text(value)
