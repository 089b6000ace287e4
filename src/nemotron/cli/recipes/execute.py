"""Carries out a recipe command: makes the plan or plans, then shows, saves or runs them."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from nemo_runspec.backends import DEFAULT_EXECUTOR, get_backend
from nemo_runspec.catalog import Recipe
from nemo_runspec.console import note
from nemo_runspec.errors import UserError
from nemo_runspec.planning.build import build_plan
from nemo_runspec.planning.planned import Planned, PlanRequest
from nemo_runspec.plans.model import Plan
from nemo_runspec.processes import hide_command_line
from nemotron.cli.options import Invocation
from nemotron.cli.resolve import check_resolve, resolved, say_if_nothing
from nemotron.cli.views import View, check_views

if TYPE_CHECKING:
    from nemo_runspec.runner.client import Caller


def execute(recipe: Recipe, invocation: Invocation) -> int:
    """Runs one call of a recipe command.

    Returns: the exit code: 0, or the job's own.

    Raises:
        UserError: a mistake; nothing has happened then.
    """
    from nemo_runspec.planning.given import given_variables
    from nemo_runspec.planning.request import plan_request

    hide_command_line(sys.argv)
    view = _checked_view(invocation)
    _check_combination(invocation)
    request = plan_request(
        recipe,
        config=invocation.config,
        profile=invocation.profile,
        overrides=invocation.overrides,
        args=invocation.args,
        mode=invocation.mode,
        labels=invocation.labels,
        variables=given_variables(invocation.env, invocation.env_file),
    )
    _check_remote_only(request, invocation)
    if invocation.multirun:
        return _multirun(request, invocation)
    request, planned = _affordable(request, invocation)
    shown = invocation.dry_run or view is View.CONFIG
    if invocation.force_squash:
        request, planned = _squashed(request, planned, dry_run=shown)
    if invocation.resolve:
        planned = _with_versions(request, planned)
    if shown:
        return _preview(_looked_at_here(planned), view, invocation)
    return _run(request, planned, invocation)


def _affordable(request: PlanRequest, invocation: Invocation) -> tuple[PlanRequest, Planned]:
    """The plan. Where it passes a ceiling of the profile, a person is asked, unless `-y` has said it.

    Raises:
        OverCeiling: nobody can be asked, the answer is no, or nothing would be submitted.
    """
    from nemo_runspec.planning.limits import OverCeiling
    from nemotron.cli.confirm import can_ask, confirmed

    try:
        return request, build_plan(request)
    except OverCeiling as error:
        may_ask = invocation.yes or can_ask()
        question = f"{error.what}; submit it all the same?"
        if invocation.dry_run or not may_ask or not confirmed(question, yes=invocation.yes, what=error.what):
            raise
    request = replace(request, over_ceiling=True)
    return request, build_plan(request)


def _run(request: PlanRequest, planned: Planned, invocation: Invocation) -> int:
    from nemo_runspec.runner.run import run_request, stage_plan
    from nemotron.cli.as_json import run_job

    def run(caller: Caller) -> int:
        return stage_plan(planned, caller) if invocation.stage else run_request(request, planned, caller)

    return run_job(run, as_json=invocation.json)


def _check_combination(invocation: Invocation) -> None:
    check_resolve(invocation.resolve, invocation.dry_run)
    if invocation.resolve and invocation.multirun:
        raise UserError("--resolve asks for one job, and -m makes several", remedy="leave one of them out")
    if invocation.out and not invocation.dry_run:
        raise UserError("--out saves the plan of a dry run", remedy=f"add --dry-run: --dry-run --out {invocation.out}")
    if invocation.out and invocation.multirun:
        raise UserError("--out saves one plan, and -m makes several", remedy="leave one of them out, or use --json")


def _checked_view(invocation: Invocation) -> View:
    """What is to be shown, of a single job unless all can be shown together."""
    if invocation.cfg not in (None, "job"):
        raise UserError(f"--cfg {invocation.cfg}: there is 'job' alone, the composed configuration", remedy="--cfg job")
    view = check_views(invocation.views, invocation.dry_run)
    if invocation.multirun and view not in (View.PAGE, View.JSON):
        raise UserError(
            f"{view.value} shows one job, and -m makes several", remedy="leave one of them out, or use --json"
        )
    return view


def _check_remote_only(request: PlanRequest, invocation: Invocation) -> None:
    asked = [o for o, given in (("--stage", invocation.stage), ("--force-squash", invocation.force_squash)) if given]
    if not asked:
        return
    executor = request.profile.executor if request.profile else DEFAULT_EXECUTOR
    if not get_backend(executor).remote:
        where = f"profile '{request.profile.name}' runs on this machine" if request.profile else "no profile is named"
        raise UserError(f"{asked[0]} needs a remote profile, and {where}", remedy="name one with --run PROFILE")


def _check_single(invocation: Invocation) -> None:
    if invocation.stage:
        raise UserError("--stage sends the files of one job, and -m makes several", remedy="leave one of them out")
    if invocation.force_squash:
        raise UserError(
            "--force-squash makes the image of one job, and -m makes several",
            remedy="make it first: nemotron kit slurm squash PROFILE IMAGE --force-squash",
        )


def _squashed(request: PlanRequest, planned: Planned, *, dry_run: bool) -> tuple[PlanRequest, Planned]:
    """The same with the squash file of the image, made anew first; a dry run only says that it would be.

    Raises:
        UserError: there is no image, or the file could not be made.
    """
    from nemo_runspec.config.overrides import quoted
    from nemo_runspec.runner.squash import squashed
    from nemotron.cli.console import caller

    plan = squashed(planned.plan, caller(), dry_run=dry_run)
    image = quoted("run.env.container_image", plan.target.container_image or "")
    return replace(request, overrides=(*request.overrides, image)), replace(planned, plan=plan)


def _multirun(request: PlanRequest, invocation: Invocation) -> int:
    if invocation.dry_run:
        from nemotron.cli.dry_run.sweep import preview_sweep

        return preview_sweep(request, machine_readable=invocation.json)
    from nemo_runspec.sweeps.submit import start_sweep
    from nemotron.cli.as_json import run_sweep

    _check_single(invocation)
    request = _affordable_sweep(request, invocation)
    return run_sweep(lambda caller: start_sweep(request, caller), as_json=invocation.json)


def _affordable_sweep(request: PlanRequest, invocation: Invocation) -> PlanRequest:
    """The request of a sweep whose first run has been looked at, where the profile has a ceiling."""
    from nemo_runspec.planning.sweep import combinations
    from nemo_runspec.sweeps.lead import asks_a_sweeper

    has_ceiling = request.profile is not None and request.profile.values.get("max_gpu_hours") is not None
    if not has_ceiling or asks_a_sweeper(request):
        return request
    first, _ = _affordable(replace(request, overrides=combinations(request)[0]), invocation)
    return replace(request, over_ceiling=first.over_ceiling)


def _looked_at_here(planned: Planned) -> Planned:
    """The plan of a job of this machine, with whether its inputs are there; no other machine is asked for a preview."""
    from nemo_runspec.runner.inputs import with_inputs_checked

    return (
        planned
        if get_backend(planned.plan.executor).remote
        else replace(planned, plan=with_inputs_checked(planned.plan))
    )


def _with_versions(request: PlanRequest, planned: Planned) -> Planned:
    """The plan, with the versions that W&B says its inputs are."""
    from nemo_runspec.artifacts.wandb import unpinned
    from nemo_runspec.runner.wandb_versions import pinned_again

    return pinned_again(request, planned) if unpinned(planned.plan) else planned


def _preview(planned: Planned, view: View, invocation: Invocation) -> int:
    from nemotron.cli.dry_run.show import show_plan

    rendering = resolved(planned) if invocation.resolve else None
    show_plan(planned.plan, view, resolved=rendering, saved_to=invocation.out)
    _save(planned.plan, invocation.out)
    if invocation.resolve:
        say_if_nothing(planned.plan, rendering)
    return 0


def _save(plan: Plan, out: str | None) -> None:
    """Saves the plan of a dry run where that is wanted."""
    if out:
        target = plan.save(out)
        note(f"plan saved: {target}  (nemotron apply {target})")
