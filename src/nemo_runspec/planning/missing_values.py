"""Before a submission: nothing may be left for the site to fill in, and the code can be packaged."""

from __future__ import annotations

from nemo_runspec.errors import Problems, UserError
from nemo_runspec.packaging.messages import problems_of
from nemo_runspec.planning import kept
from nemo_runspec.plans.model import Plan


def missing_secret(name: str) -> str:
    """A plan's line about a secret that the profile lists and nobody has given."""
    return f"secret {name} was not found in the environment or a login file"


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
    """The mend of a line about a missing secret, None for other lines: a secret never stands in a profile."""
    name = next((name for name, about in plan.missing_secrets.items() if about == line), None)
    if name is None:
        return None
    return f"export {name}=… where nemotron is started, or take it out of secrets if the job does not need it"


def _remedy(plan: Plan) -> str:
    return f"complete it in {plan.env_file}" if plan.env_file else "set them with run.env.KEY=VALUE"
