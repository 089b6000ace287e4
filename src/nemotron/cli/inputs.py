"""Before a local run: are its inputs there? What a config declares `make = if-missing` for is made first."""

from __future__ import annotations

import sys
from collections.abc import Callable

from nemo_runspec.catalog import find_recipe
from nemo_runspec.config.overrides import quoted
from nemo_runspec.errors import UserError
from nemo_runspec.planning.model import Artifact, Plan

Runner = Callable[..., int]
"""`run(request, planned, *, argv)`: runs a plan with its own inputs; the return value is the exit code."""

_CARRIED = ("run.env.job_dir=", "run.env.env_vars.NEMO_RUN_DIR=")


def provide_inputs(plan: Plan, argv: list[str], run: Runner) -> bool:
    """Makes missing inputs as jobs of their own, with the plan's own profile. True where something was made.

    Raises:
        UserError: an input is missing that nemotron does not make by itself; or making it has failed, and then with
            that job's exit code.
    """
    missing = [a for a in plan.consumes if a.ready is False and (a.required or a.make)]
    for artifact in missing:
        if artifact.make != "if-missing" or artifact.recipe is None:
            raise _missing(plan, artifact)
    for artifact in missing:
        _make(plan, artifact, argv, run)
    return bool(missing)


def _make(plan: Plan, artifact: Artifact, argv: list[str], run: Runner) -> None:
    from nemo_runspec.planning.build import build_plan
    from nemo_runspec.planning.request import plan_request

    recipe = find_recipe(str(artifact.recipe))
    print(f"{artifact.name}: '{artifact.artifact}' is not there yet; running {recipe.path} first", file=sys.stderr)
    request = plan_request(
        recipe,
        config=artifact.config,
        profile=plan.profile,
        overrides=[quoted("run.artifacts.root", plan.run["artifacts"]["root"]), *_carried(plan)],
        env_file=plan.env_file,
    )
    code = run(request, build_plan(request), argv=argv)
    if code != 0:
        failure = UserError(
            f"making '{artifact.artifact}' has ended with exit code {code}; {plan.recipe.path} was not started",
            remedy=f"see what went wrong: nemotron jobs show last, then: {_command(plan, artifact)}",
        )
        failure.exit_code = code  # something has run: this is that job's own end, not a mistake in the call
        raise failure


def require_inputs(plan: Plan) -> None:
    """Raises `UserError` where a required input of a plan is not there."""
    for artifact in plan.consumes:
        if artifact.ready is False and artifact.required:
            raise _missing(plan, artifact)


def _carried(plan: Plan) -> list[str]:
    """Overrides of the call that also decide where its inputs are made."""
    return [text for text in plan.overrides if text.lstrip("+").startswith(_CARRIED)]


def _missing(plan: Plan, artifact: Artifact) -> UserError:
    wanted = artifact.artifact or artifact.path
    source = plan.sources.get(f"run.{artifact.name}.artifact") or plan.sources.get(f"run.{artifact.name}.path")
    if wanted is None:
        return UserError(
            f"{plan.recipe.path} needs an input '{artifact.name}' ({artifact.type}), and none is named",
            remedy=f"run.{artifact.name}=ARTIFACT or run.{artifact.name}=/a/path",
        )
    made = f"make it: {_command(plan, artifact)}; or name a path: " if artifact.recipe and artifact.artifact else ""
    return UserError(
        f"input '{artifact.name}' ({artifact.type}) is missing: {wanted}",
        where=source.place() if source else None,
        remedy=f"{made}run.{artifact.name}=/a/path",
    )


def _command(plan: Plan, artifact: Artifact) -> str:
    words = ["nemotron", *str(artifact.recipe).split("/")]
    words += ["-c", artifact.config] if artifact.config else []
    words += ["--run", plan.profile] if plan.profile else []
    return " ".join(words)
