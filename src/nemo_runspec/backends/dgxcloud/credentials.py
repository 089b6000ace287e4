"""Where the client secret of a run:ai application is found: a submission's, the profile's own, the environment's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from nemo_runspec.errors import UserError
from nemo_runspec.lines import text_lines

VARIABLE = "RUNAI_CLIENT_SECRET"
"""Looked at where neither a submission nor a profile has the secret."""

KEY = "client_secret"
"""The key of a profile, and the name of a plan's secret."""

_GIVEN: dict[tuple[str, str], str] = {}
"""Secrets of this process's submissions: one typed on the command line is nowhere else."""


def client_secret(handle: Mapping[str, Any], secrets: Mapping[str, str] | None = None) -> str:
    """The secret of a handle's application. Raises `UserError` where it is nowhere.

    Args:
        handle: with `base_url`, `client_id`, and `profile` and `env_file`, where the secret stood.
        secrets: of a submission.
    """
    application = (_address(handle), str(handle.get("client_id")))
    if given := (secrets or {}).get(KEY):
        _GIVEN[application] = given
    if application in _GIVEN:
        return _GIVEN[application]
    stored, why = _in_profile(handle)
    found = stored or os.environ.get(VARIABLE, "").strip()
    if not found:
        raise UserError(
            f"the client secret of run:ai application {application[1]} is not at hand: {why}",
            where=str(handle.get("env_file") or "") or None,
            remedy=f"set {KEY} in the profile, or export {VARIABLE}=…",
        )
    return found


def _in_profile(handle: Mapping[str, Any]) -> tuple[str, str]:
    """The secret as the profile has it now, and why there is none. Another application's secret is not handed out."""
    from nemo_runspec.planning.secrets_again import profile_values

    name, file = handle.get("profile"), handle.get("env_file")
    if not name:
        return "", "the job was submitted without a profile"
    try:
        values = profile_values(str(name), str(file) if file else None)
    except UserError as error:
        return "", text_lines(error.what)[0]
    if (_address(values), values.get("client_id")) != (_address(handle), handle.get("client_id")):
        return "", f"profile '{name}' names another application by now"
    return str(values.get(KEY) or ""), f"profile '{name}' has no {KEY}"


def _address(values: Mapping[str, Any]) -> str:
    return str(values.get("base_url") or "").rstrip("/")
