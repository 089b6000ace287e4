"""The secrets of a plan that was saved: references looked up again where they pointed."""

from __future__ import annotations

from nemo_runspec.planning.model import Plan
from nemo_runspec.secrets import resolve


def look_up(plan: Plan) -> dict[str, str]:
    """Secret name → value, for this process only.

    Raises:
        UserError: a secret that is no longer there, or was typed on a command line and therefore never stored.
    """
    profile: dict[str, str] = _profile_values(plan) if any(s.origin == "profile" for s in plan.secrets) else {}
    return {secret.name: resolve(secret, profile if secret.origin == "profile" else None) for secret in plan.secrets}


def _profile_values(plan: Plan) -> dict[str, str]:
    from pathlib import Path

    from nemo_runspec.profiles.load import load_profile

    if plan.profile is None:
        return {}
    profile, _ = load_profile(plan.profile, Path(plan.env_file) if plan.env_file else None)
    scalars = {k: str(v) for k, v in profile.values.items() if isinstance(v, str)}
    return {**scalars, **{k: str(v) for k, v in (profile.values.get("env_vars") or {}).items()}}
