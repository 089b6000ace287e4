"""A job's secrets as secrets of its workspace, referred to by name: no value ever stands in a job's description.

A secret's name holds a part of a hash of its value, so that a changed value is another secret, and jobs with the same
one share it. Values travel in the body of the request that makes them and nowhere else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from nemo_runspec.backends.lepton.api import LeptonApi
from nemo_runspec.backends.lepton.fields import LeptonTarget
from nemo_runspec.backends.lepton.payload import IMAGE_PULL_SECRET, secret_placeholder, wants_pull_secret
from nemo_runspec.console import Say
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.secrets import NGC_KEYS
from nemo_runspec.transport.registry import NGC, NGC_USER
from nemo_runspec.transport.web import Refused

_TAKEN = frozenset({400, 409})
"""How the API may say that a name is taken already."""


@dataclass(frozen=True, slots=True)
class _Store:
    """The secrets of one kind in a workspace. `key`: of a profile, which names some of them."""

    key: str
    names: Callable[[], Collection[str]]
    make: Callable[[str, str], object]

    def provide(self, named: Collection[str], wanted: Mapping[str, str]) -> list[str]:
        """Makes the wanted ones (name → value) that are not there yet; their names. Those that are named must be there.

        Raises:
            UserError: one of them is not; or Lepton refuses to make one.
        """
        there = set(self.names()) if named or wanted else set()
        for name in named:
            if name not in there:
                have = ", ".join(sorted(there)) or "none"
                raise UserError(
                    f"{self.key}: the workspace has no secret '{name}'", remedy=f"secrets there are: {have}"
                )
        missing = sorted(set(wanted) - there)
        for name in missing:
            self._make(name, wanted[name])
        return missing

    def _make(self, name: str, value: str) -> None:
        """Makes one; that another submission has made it meanwhile is as good."""
        try:
            self.make(name, value)
        except Refused as error:
            if error.status not in _TAKEN or name not in self.names():
                raise UserError(
                    f"Lepton refuses to make the secret {name} (HTTP {error.status})",
                    remedy="make one by hand and name it in secret_vars, or image_pull_secrets",
                ) from None


def secret_facts(plan: Plan, values: Mapping[str, str], workspace: str) -> dict[str, Any]:
    """What fills the placeholders of secrets: the names they have, or will have. Asks nothing, makes nothing."""
    names = _names(plan, values, workspace)
    facts: dict[str, Any] = {secret_placeholder(variable): name for variable, name in names.items()}
    if wants_pull_secret(target_of(plan, LeptonTarget)):
        key = ngc_key(values)
        facts[IMAGE_PULL_SECRET] = [secret_name("ngc", key, workspace)] if key else []
    return facts


def make_secrets(api: LeptonApi, plan: Plan, values: Mapping[str, str], say: Say) -> None:
    """Makes the secrets that are not there yet; a secret that a profile names must be there. As `_Store.provide`."""
    target, workspace = target_of(plan, LeptonTarget), api.login.workspace
    wanted = {name: values[variable] for variable, name in _names(plan, values, workspace).items()}
    for name in _Store("secret_vars", api.secrets, api.create_secret).provide(target.secret_vars.values(), wanted):
        say(f"{plan.name}: made the workspace's secret {name}")
    key = ngc_key(values) if wants_pull_secret(target) else ""
    if wants_pull_secret(target) and not key:
        say("warning: NGC_KEY is not set and image_pull_secrets is empty: the image is pulled without a login")
    pulls = _Store(
        "image_pull_secrets",
        api.image_pull_secrets,
        lambda name, value: api.create_image_pull_secret(name, NGC, NGC_USER, value),
    )
    for name in pulls.provide(target.image_pull_secrets, {secret_name("ngc", key, workspace): key} if key else {}):
        say(f"made the workspace's secret {name} for {NGC}")


def secret_name(name: str, value: str, workspace: str) -> str:
    """`nemotron-<name>-<8 hex digits>`: another one for another value, and in another workspace."""
    word = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "secret"
    key = blake2b(f"nemotron:{workspace}:{name}".encode()).digest()
    return f"nemotron-{word}-{blake2b(value.encode('utf-8', 'surrogateescape'), key=key, digest_size=4).hexdigest()}"


def ngc_key(values: Mapping[str, str]) -> str:
    """The key for NVIDIA's registry: among the job's secrets, else in the environment; '' where there is none."""
    return next((found for name in NGC_KEYS if (found := values.get(name) or os.environ.get(name, "").strip())), "")


def _names(plan: Plan, values: Mapping[str, str], workspace: str) -> dict[str, str]:
    """Variable of the job → name of its secret, for those whose values are known."""
    known = [secret.name for secret in plan.secrets if secret.name in values]
    return {variable: secret_name(variable, values[variable], workspace) for variable in known}
