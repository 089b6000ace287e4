"""A job's secrets as secrets of its workspace, referred to by name: no value ever stands in a job's description.

A secret's name holds a part of a hash of its value, so that a changed value is another secret, and jobs with the same
one share it. Values travel in the body of the request that makes them and nowhere else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

from nemo_runspec.backends.lepton.api import LeptonApi
from nemo_runspec.backends.lepton.fields import LeptonTarget
from nemo_runspec.backends.lepton.spec import IMAGE_PULL_SECRET, secret_placeholder, wants_pull_secret
from nemo_runspec.backends.provider import Say
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.secrets import NGC_KEYS
from nemo_runspec.transport.registry import NGC, NGC_USER
from nemo_runspec.transport.web import Refused

_TAKEN = frozenset({400, 409})
"""How the API may say that a name is taken already."""


def secret_facts(plan: Plan, values: Mapping[str, str], workspace: str) -> dict[str, Any]:
    """What fills the placeholders of secrets: the names they have, or will have. Asks nothing, makes nothing."""
    facts: dict[str, Any] = {
        secret_placeholder(secret.name): secret_name(secret.name, values[secret.name], workspace)
        for secret in plan.secrets
        if secret.name in values
    }
    if wants_pull_secret(target_of(plan, LeptonTarget)):
        key = ngc_key(values)
        facts[IMAGE_PULL_SECRET] = [secret_name("ngc", key, workspace)] if key else []
    return facts


def make_secrets(api: LeptonApi, plan: Plan, values: Mapping[str, str], say: Say) -> None:
    """Makes the secrets that are not there yet; a secret that a profile names must be there.

    Raises:
        UserError: it is not; or Lepton refuses to make one.
    """
    target = target_of(plan, LeptonTarget)
    wanted = {
        secret_name(secret.name, values[secret.name], api.login.workspace): values[secret.name]
        for secret in plan.secrets
        if secret.name in values
    }
    if wanted or target.secret_vars:
        there = set(api.secrets())
        _require("secret_vars", target.secret_vars.values(), there)
        for name in sorted(set(wanted) - there):
            _made(api.create_secret, api.secrets, name, wanted[name])
            say(f"{plan.name}: made the workspace's secret {name}")
    _make_pull_secret(api, target, values, say)


def secret_name(name: str, value: str, workspace: str) -> str:
    """`nemotron-<name>-<8 hex digits>`: another one for another value, and in another workspace."""
    word = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "secret"
    key = blake2b(f"nemotron:{workspace}:{name}".encode()).digest()
    return f"nemotron-{word}-{blake2b(value.encode('utf-8', 'surrogateescape'), key=key, digest_size=4).hexdigest()}"


def ngc_key(values: Mapping[str, str]) -> str:
    """The key for NVIDIA's registry: among the job's secrets, else in the environment; '' where there is none."""
    return next((found for name in NGC_KEYS if (found := values.get(name) or os.environ.get(name, "").strip())), "")


def _make_pull_secret(api: LeptonApi, target: LeptonTarget, values: Mapping[str, str], say: Say) -> None:
    if target.image_pull_secrets:
        _require("image_pull_secrets", target.image_pull_secrets, set(api.image_pull_secrets()))
    if not wants_pull_secret(target):
        return
    key = ngc_key(values)
    if not key:
        say("warning: NGC_KEY is not set and image_pull_secrets is empty: the image is pulled without a login")
        return
    name = secret_name("ngc", key, api.login.workspace)
    if name not in api.image_pull_secrets():
        _made(
            lambda made, value: api.create_image_pull_secret(made, NGC, NGC_USER, value),
            api.image_pull_secrets,
            name,
            key,
        )
        say(f"made the workspace's secret {name} for {NGC}")


def _made(make: Any, names: Any, name: str, value: str) -> None:
    """Makes a secret; one that another submission has made meanwhile is as good."""
    try:
        make(name, value)
    except Refused as error:
        if error.status not in _TAKEN or name not in names():
            raise UserError(
                f"Lepton refuses to make the secret {name} (HTTP {error.status})",
                remedy="make one by hand and name it in secret_vars, or image_pull_secrets",
            ) from None


def _require(key: str, names: Iterable[str], there: set[str]) -> None:
    for name in names:
        if name not in there:
            have = ", ".join(sorted(there)) or "none"
            raise UserError(f"{key}: the workspace has no secret '{name}'", remedy=f"secrets there are: {have}")
