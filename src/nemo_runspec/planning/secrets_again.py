"""The secrets of a plan that was saved: references looked up again where they pointed."""

from __future__ import annotations

from nemo_runspec.plans.model import Plan
from nemo_runspec.secrets import resolve


def look_up(plan: Plan) -> dict[str, str]:
    """Secret name → value, for this process only.

    Raises:
        UserError: a secret that is no longer there, or was typed on a command line and therefore never stored.
    """
    wanted = any(secret.origin == "profile" for secret in plan.secrets)
    profile = profile_values(plan.profile, plan.env_file) if wanted else {}
    variables = {variable.name: variable.value for variable in plan.env}
    return {
        secret.name: resolve(secret, profile if secret.origin == "profile" else None, variables)
        for secret in plan.secrets
    }


def profile_values(name: str | None, env_file: str | None) -> dict[str, str]:
    """The texts of a profile as it is now, its variables for jobs among them; none without a name.

    Raises:
        UserError: there is no such file or profile any more, or it cannot be read.
    """
    from pathlib import Path

    from nemo_runspec.profiles.load import load_profile

    if name is None:
        return {}
    profile, _ = load_profile(name, Path(env_file) if env_file else None)
    scalars = {k: str(v) for k, v in profile.values.items() if isinstance(v, str)}
    return {**scalars, **{k: str(v) for k, v in (profile.values.get("env_vars") or {}).items()}}
