"""Plans made, read and submitted from Python."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nemo_runspec.api.given import words as given_words
from nemo_runspec.api.job import Job
from nemo_runspec.api.listener import caller
from nemo_runspec.console import Say
from nemo_runspec.errors import UserError
from nemo_runspec.paths import expanded, working_directory
from nemo_runspec.planning import codec
from nemo_runspec.planning.build import build_plan
from nemo_runspec.planning.given import GivenVariable
from nemo_runspec.planning.planned import Planned, PlanRequest
from nemo_runspec.planning.request import plan_request
from nemo_runspec.plans.labels import Labels
from nemo_runspec.plans.model import Plan
from nemo_runspec.runner.apply import fresh, ready_saved
from nemo_runspec.runner.run import submit_plan, submit_request

_KEPT = 256
"""Plans of this process that are remembered with how they were asked for."""

_made: OrderedDict[str, tuple[PlanRequest, Planned]] = OrderedDict()


def plan(
    recipe: str | Path,
    *,
    config: str | Path | None = None,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    args: Sequence[str] = (),
    mode: str = "run",
    env_file: str | Path | None = None,
    labels: Labels,
    variables: Sequence[GivenVariable] = (),
) -> Plan:
    """As `nemo_runspec.plan`. This process remembers how it was asked for, and its secrets, until it is submitted."""
    request = plan_request(
        recipe, config=config, profile=profile, overrides=overrides, args=args, mode=mode, env_file=env_file,
        labels=labels, variables=variables,
    )  # fmt: skip
    planned = build_plan(request)
    _made[planned.plan.name] = request, planned
    while len(_made) > _KEPT:
        _made.popitem(last=False)
    return planned.plan


def load_plan(path: str | Path) -> Plan:
    """As `nemo_runspec.load_plan`."""
    return codec.load_plan(expanded(str(path)))


def submit(plan: Plan, *, say: Say | None = None) -> Job:
    """As `nemo_runspec.submit`."""
    if not isinstance(plan, Plan):
        raise UserError(f"what is submitted is a plan, not {plan!r}", remedy="nemo_runspec.load_plan(PATH) reads one")
    working_directory()  # its command is looked for there
    request, planned = _made.get(plan.name, (None, None))
    who = caller(command_of(plan, request.variables if request else ()), say)
    if request is None or planned is None or planned.plan != plan:
        return Job(submit_plan(ready_saved(plan, who), who))
    return Job(submit_request(request, replace(planned, plan=fresh(plan, who)), who))


def command_of(plan: Plan, variables: Sequence[GivenVariable] = ()) -> list[str]:
    """The command line that does the same. What was secret on it is not in it."""
    words = recipe_words(plan.recipe.path, plan.recipe.script)
    words += ["-c", plan.config_name] if plan.config_name else []
    words += [f"--{plan.mode}", plan.profile] if plan.profile else []
    words += given_words(plan.labels, variables)
    return [*words, *plan.overrides, *(["--", *plan.launch.args] if plan.launch.args else [])]


def recipe_words(path: str, script: str) -> list[str]:
    """How the command line names a recipe, or a script of one's own."""
    from nemo_runspec.catalog import command_words, has_recipe

    return ["nemotron", *command_words(path)] if has_recipe(path) else ["nemotron", "run", script]
