"""Finds the client secret of a run:ai application: a submission's, the profile's own, the environment's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from nemo_runspec.errors import UserError
from nemo_runspec.lines import text_lines

VARIABLE = "DGX_CLIENT_SECRET"
"""What a profile refers to that `nemotron init` has made; looked at too where no submission and no profile has it."""

_EARLIER = "RUNAI_CLIENT_SECRET"
"""What was looked at instead before both had one name; it still is, where the other is not set."""

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
    stored = _in_profile(handle)
    found = stored.secret or in_environment(stored.others)[1]
    if not found:
        raise UserError(
            f"the client secret of run:ai application {application[1]} is not at hand: {stored.why}",
            where=str(handle.get("env_file") or "") or None,
            remedy=f"set {KEY} in the profile, or export {VARIABLE}=…",
        )
    return found


def in_environment(others: str = "") -> tuple[str, str]:
    """The variable of this environment that has the secret, and the secret, '' where none has it.

    Args:
        others: a secret that is known to be another application's, and is not handed out.
    """
    found = ((name, os.environ.get(name, "").strip()) for name in (VARIABLE, _EARLIER))
    return next(((name, secret) for name, secret in found if secret not in ("", others)), (VARIABLE, ""))


class _Stored(NamedTuple):
    """What a profile has: the secret, or why there is none. `others`: that of the application that it names instead."""

    secret: str
    why: str
    others: str = ""


def _in_profile(handle: Mapping[str, Any]) -> _Stored:
    """The secret as the profile has it now. Another application's secret is not handed out."""
    from nemo_runspec.planning.secrets_again import profile_values

    name, file = handle.get("profile"), handle.get("env_file")
    if not name:
        return _Stored("", "the job was submitted without a profile")
    try:
        values = profile_values(str(name), str(file) if file else None)
    except UserError as error:
        return _Stored("", text_lines(error.what)[0])
    secret = str(values.get(KEY) or "")
    if (_address(values), values.get("client_id")) != (_address(handle), handle.get("client_id")):
        return _Stored("", f"profile '{name}' names another application by now", secret)
    return _Stored(secret, f"profile '{name}' has no {KEY}")


def _address(values: Mapping[str, Any]) -> str:
    return str(values.get("base_url") or "").rstrip("/")
