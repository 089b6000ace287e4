"""Before a submission: nothing may be left for the site to fill in, and the code can be packaged."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from nemo_runspec.errors import Problems, UserError
from nemo_runspec.packaging.messages import problems_of
from nemo_runspec.planning import kept
from nemo_runspec.plans.model import Plan

_REQUIRED = ", which the recipe requires,"


def missing_values(secrets: Iterable[str], variables: Iterable[str], required: Collection[str]) -> dict[str, str]:
    """A plan's lines about what nobody has given, by name.

    Args:
        secrets: that the profile lists or the recipe requires. `variables`: others that the recipe does.
        required: what the recipe requires.
    """
    found = {name: f"secret {name}{_REQUIRED if name in required else ''} was not found" for name in secrets}
    lines = {name: f"{line} in the environment or a login file" for name, line in found.items()}
    return {**lines, **{name: f"variable {name}{_REQUIRED} is not set" for name in variables}}


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
        raise Problems(
            f"{', and '.join(titles)}; nothing was submitted",
            [*(UserError(line, remedy=_of_secret(line, plan)) for line in plan.unfilled), *package, *lost],
            remedy=_remedy(plan) if not all(_of_secret(line, plan) for line in plan.unfilled) else None,
        )


def _of_secret(line: str, plan: Plan) -> str | None:
    """The mend of a line about a missing secret or variable, None for others: a secret never stands in a profile."""
    name = next((name for name, about in plan.missing_secrets.items() if about == line), None)
    if name is None:
        return None
    if line.startswith("variable "):
        return f"--env {name}=…, or in the profile env_vars = {{ {name} = … }}"
    if _REQUIRED in line:
        return f"export {name}=… where nemotron is started"
    return f"export {name}=… where nemotron is started, or take it out of secrets if the job does not need it"


def _remedy(plan: Plan) -> str:
    return f"complete it in {plan.env_file}" if plan.env_file else "set them with run.env.KEY=VALUE"
