"""Before a submission: nothing may be left for the site to fill in, and the code can be packaged."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from nemo_runspec.errors import Problems, UserError
from nemo_runspec.packaging.messages import problems_of
from nemo_runspec.planning import kept
from nemo_runspec.plans.model import MissingValue, Plan

_REQUIRED = ", which the recipe requires,"


def missing_values(
    secrets: Iterable[str], variables: Iterable[str], required: Collection[str]
) -> dict[str, MissingValue]:
    """What a plan says of what nobody has given, by name.

    Args:
        secrets: that the profile lists or the recipe requires.
        variables: others that the recipe does.
        required: what the recipe requires.
    """
    found = {name: missing_secret(name, required=name in required) for name in secrets}
    return {**found, **{name: _missing_variable(name) for name in variables}}


def missing_secret(name: str, *, required: bool = False) -> MissingValue:
    """A secret that was not found: it never stands in a profile. `required`: the recipe does not run without it."""
    return MissingValue(
        f"secret {name}{_REQUIRED if required else ''} was not found in the environment or a login file",
        f"export {name}=… where nemotron is started"
        + ("" if required else ", or take it out of secrets if the job does not need it"),
    )


def _missing_variable(name: str) -> MissingValue:
    return MissingValue(
        f"variable {name}{_REQUIRED} is not set",
        f"--env {name}=…, or in the profile env_vars = {{ {name} = … }}",
    )


def refuse_unfilled(plan: Plan) -> None:
    """Raises `UserError` where required keys, placeholders or listed secrets are open, or the code cannot be packaged.

    What is wrong with the package, and a secret, has a mend of its own: the profile may be as it should be.
    """
    package, lost = problems_of(plan.package), kept.problems_of(plan)
    where = f"profile '{plan.profile}'" if plan.profile else "the plan"
    titles = [f"{where} is not complete"] if plan.unfilled else []
    titles += ["the code cannot be packaged"] if package else []
    titles += ["not all that the job is told is on storage that it sees and that outlives it"] if lost else []
    if titles:
        mends = {each.line: each.remedy for each in plan.missing_secrets.values()}
        raise Problems(
            f"{', and '.join(titles)}; nothing was submitted",
            [*(UserError(line, remedy=mends.get(line)) for line in plan.unfilled), *package, *lost],
            remedy=None if mends.keys() >= {*plan.unfilled} else _remedy(plan),
        )


def _remedy(plan: Plan) -> str:
    return f"complete it in {plan.env_file}" if plan.env_file else "set them with run.env.KEY=VALUE"
