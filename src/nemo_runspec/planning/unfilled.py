"""Before a submission: nothing may be left for the site to fill in, and the code can be packaged."""

from __future__ import annotations

from nemo_runspec.errors import Problems, UserError
from nemo_runspec.packaging.said import problems_of
from nemo_runspec.planning.model import Plan


def refuse_unfilled(plan: Plan) -> None:
    """Raises `UserError` where required keys, placeholders or listed secrets are open, or the code cannot be packaged.

    What is wrong with the package has a mend of its own: the profile may be as it should be.
    """
    package = problems_of(plan.package)
    where = f"profile '{plan.profile}'" if plan.profile else "the plan"
    titles = [f"{where} is not complete"] if plan.unfilled else []
    titles += ["the code cannot be packaged"] if package else []
    if titles:
        raise Problems(
            f"{', and '.join(titles)}; nothing was submitted",
            [*(UserError(line) for line in plan.unfilled), *package],
            remedy=_remedy(plan) if plan.unfilled else None,
        )


def _remedy(plan: Plan) -> str:
    return f"complete it in {plan.env_file}" if plan.env_file else "set them with run.env.KEY=VALUE"
