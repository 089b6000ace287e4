"""What a recipe command does: make the plan or plans, then show, save or run them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from nemo_runspec.backends import get_backend
from nemo_runspec.catalog import Recipe
from nemo_runspec.errors import NotBuilt, UserError
from nemo_runspec.paths import expanded, write_private
from nemo_runspec.planning.build import Planned, PlanRequest, build_plan
from nemo_runspec.planning.model import Plan
from nemo_runspec.planning.unfilled import refuse_unfilled
from nemotron.cli.options import Invocation

Client = Callable[..., int]
"""A backend's `run(plan, *, plan_text, secret_values, argv, on_success)`; the return value is the exit code."""


def execute(recipe: Recipe, invocation: Invocation) -> int:
    """Runs one call of a recipe command.

    Returns: the exit code: 0, or the job's own.

    Raises:
        UserError: a mistake; nothing has happened then.
    """
    from nemo_runspec.planning.request import plan_request

    _check_combination(invocation)
    request = plan_request(
        recipe,
        config=invocation.config,
        profile=invocation.profile,
        overrides=invocation.overrides,
        args=invocation.args,
        mode=invocation.mode,
    )
    _check_remote_only(request, invocation)
    if invocation.multirun:
        return _multirun(request, invocation)
    planned = build_plan(request)
    if invocation.dry_run:
        return _preview(planned.plan, invocation)
    _check_staging(invocation)
    return run_request(request, planned, argv=sys.argv)


def run_request(request: PlanRequest, planned: Planned, *, argv: list[str]) -> int:
    """Runs a plan just made, after the inputs it lacks; the return value is the exit code.

    Where an input had to be made first, the plan is made again, so that it names the version that now exists.
    """
    from nemotron.cli.inputs import provide_inputs, require_inputs

    client = ready_client(planned.plan)
    if provide_inputs(planned.plan, argv, run_request):
        planned = build_plan(request)
        require_inputs(planned.plan)
    return submit(planned, client, argv=argv)


def ready_client(plan: Plan) -> Client:
    """What runs this plan.

    Raises:
        UserError: the plan still has placeholders, or its executor or mode cannot be submitted in this release.
    """
    client: Client = get_backend(plan.executor).load_client()
    if plan.mode == "batch":
        raise NotBuilt(
            "detached runs (--batch) are not built in this release; nothing was submitted",
            remedy=f"--run {plan.profile} stays attached; --batch {plan.profile} --dry-run shows the plan",
        )
    refuse_unfilled(plan)
    return client


def submit(planned: Planned, client: Client, *, argv: list[str]) -> int:
    """Runs a plan that has been made or loaded; the return value is the job's exit code."""
    from nemo_runspec.artifacts.store import register
    from nemo_runspec.planning.codec import plan_to_json

    plan = planned.plan
    return client(
        plan,
        plan_text=plan_to_json(plan),
        secret_values=planned.secret_values,
        argv=argv,
        on_success=lambda: register(plan),
    )


def _check_combination(invocation: Invocation) -> None:
    if invocation.out and not invocation.dry_run:
        raise UserError("--out saves the plan of a dry run", remedy=f"add --dry-run: --dry-run --out {invocation.out}")
    if invocation.out and invocation.multirun:
        raise UserError("--out saves one plan, and -m makes several", remedy="leave one of them out, or use --json")
    if invocation.json and not invocation.dry_run:
        raise UserError(
            "--json belongs to --dry-run here", remedy="add --dry-run; jobs have 'nemotron jobs show --json'"
        )


def _check_remote_only(request: PlanRequest, invocation: Invocation) -> None:
    asked = [o for o, given in (("--stage", invocation.stage), ("--force-squash", invocation.force_squash)) if given]
    if not asked:
        return
    executor = request.profile.executor if request.profile else "local"
    if not get_backend(executor).remote:
        where = f"profile '{request.profile.name}' runs on this machine" if request.profile else "no profile is named"
        raise UserError(f"{asked[0]} needs a remote profile, and {where}", remedy="name one with --run PROFILE")


def _check_staging(invocation: Invocation) -> None:
    if invocation.stage or invocation.force_squash:
        option = "--stage" if invocation.stage else "--force-squash"
        raise NotBuilt(
            f"{option} is not built in this release; nothing was submitted", remedy="add --dry-run to see the plan"
        )


def _multirun(request: PlanRequest, invocation: Invocation) -> int:
    from nemo_runspec.planning.sweep import build_sweep
    from nemotron.cli.preview import print_sweep

    plans = build_sweep(request)
    if not invocation.dry_run:
        raise NotBuilt(
            f"sweeps are planned but not run in this release; nothing was submitted ({len(plans)} plans made)",
            remedy="add --dry-run to see them",
        )
    print_sweep(plans, as_json=invocation.json)
    return 0


def _preview(plan: Plan, invocation: Invocation) -> int:
    from nemo_runspec.planning.codec import plan_to_json
    from nemotron.cli.preview import print_preview

    print_preview(plan, as_json=invocation.json)
    if invocation.out:
        target = expanded(invocation.out)
        try:
            write_private(target, plan_to_json(plan))
        except OSError as error:
            raise UserError(f"cannot save the plan: {error.strerror}", where=str(target)) from None
        print(f"plan saved: {target}  (nemotron apply {target})", file=sys.stderr)
    return 0


def values_of(plan: Plan) -> Mapping[str, str]:
    """The secrets a saved plan names, looked up again now.

    Raises:
        UserError: one that was given on the command line of the dry run, or that is gone.
    """
    from nemo_runspec.planning.secrets_again import look_up

    return look_up(plan)
