"""Before a submission: nothing may be left for the site to fill in."""

from __future__ import annotations

from nemo_runspec.errors import Problems, UserError
from nemo_runspec.planning.model import Plan


def refuse_unfilled(plan: Plan) -> None:
    """Raises `UserError` where required keys, placeholders or listed secrets are still open."""
    if not plan.unfilled:
        return
    where = f"profile '{plan.profile}'" if plan.profile else "the plan"
    raise Problems(
        f"{where} is not complete; nothing was submitted",
        [UserError(line) for line in plan.unfilled],
        remedy=f"complete it in {plan.env_file}" if plan.env_file else "set them with run.env.KEY=VALUE",
    )
