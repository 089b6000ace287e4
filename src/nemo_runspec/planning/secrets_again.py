"""The secrets of a plan that was saved: references looked up again where they pointed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from nemo_runspec.errors import UserError
from nemo_runspec.planning.given import FROM_FILE, variables_in
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
    known = {"profile": profile, FROM_FILE: _of_files(plan)}
    return {secret.name: resolve(secret, known.get(secret.origin), variables) for secret in plan.secrets}


def _of_files(plan: Plan) -> dict[str, str]:
    """What now stands in the files that were named on the command line, `--env-file`; what is gone is not there."""
    found: dict[str, str] = {}
    for file in dict.fromkeys(secret.detail for secret in plan.secrets if secret.origin == FROM_FILE):
        with suppress(UserError):
            found |= {variable.name: variable.value for variable in variables_in(Path(file))}
    return found


def profile_values(name: str | None, env_file: str | None) -> dict[str, str]:
    """The texts of a profile as it is now, its variables for jobs among them; none without a name.

    Raises:
        UserError: there is no such file or profile any more, or it cannot be read.
    """
    from nemo_runspec.profiles.load import load_profile

    if name is None:
        return {}
    profile, _ = load_profile(name, Path(env_file) if env_file else None)
    scalars = {k: str(v) for k, v in profile.values.items() if isinstance(v, str)}
    return {**scalars, **{k: str(v) for k, v in (profile.values.get("env_vars") or {}).items()}}
