"""Is this profile going to work? Its values first, then what its backend looks at, then its secrets."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.base import TargetRequest
from nemo_runspec.doctor import credentials
from nemo_runspec.doctor.check import Check, Question, failed, of_error, ok, skipped, warning
from nemo_runspec.errors import Problems, UserError
from nemo_runspec.field import OPEN_TYPES
from nemo_runspec.profiles.envfile import EnvFile
from nemo_runspec.profiles.fieldset import fields_of
from nemo_runspec.profiles.interpolate import settled_mounts
from nemo_runspec.profiles.profile import Profile

MODES = ("run", "batch")


@dataclass(frozen=True)
class Patient:
    """A profile and the env file it stands in, None for a built-in one."""

    profile: Profile
    file: EnvFile | None = None


def examine(patient: Patient, *, job: bool = False) -> Iterator[Check]:
    """Everything there is to say about a profile, each as soon as it is known.

    Args:
        job: a small job may be submitted.
    """
    profile = patient.profile
    env = merged(profile)
    usable = True
    for check in _values(profile, env):
        usable = usable and not (check.verdict == "failed" and check.name == "values")
        yield check
    if usable:
        yield from get_backend(profile.executor).preflight_of(Question(profile.name, env, job))
    else:
        yield skipped(profile.executor, "not checked: the values above must be mended first")
    yield from credentials.listed(env.get("secrets") or (), env.get("env_vars") or {})
    sections = patient.file.sections if patient.file else {}
    yield from credentials.usual(sections, env.get("secrets") or (), env.get("env_vars") or {})


def merged(profile: Profile) -> dict[str, Any]:
    """A profile's values over the default of every key, as a plan has them; no clones among its mounts."""
    fields = fields_of(profile.executor).fields.values()
    defaults = {
        f.name: deepcopy(f.default) if f.default is not None else ({} if f.type in OPEN_TYPES else None)
        for f in fields
        if f.name != "extends"
    }
    mounts = [mount for mount in profile.values.get("mounts") or () if "auto_mount:" not in str(mount)]
    return {**defaults, **profile.values, "mounts": mounts}


def _values(profile: Profile, env: dict[str, Any]) -> Iterator[Check]:
    """What is wrong with the values themselves: `values` where no job can be made of them, else `profile`."""
    found = [failed("profile", line, _where(profile)) for line in profile.unfilled()]
    found += [warning("profile", line) for line in profile.warnings]
    mounts = settled_mounts({"mounts": profile.values.get("mounts")})
    values = {**env, **mounts, "container_image": env.get("container_image") or "image"}
    for mode in MODES:
        try:
            target = get_backend(profile.executor).make_target(TargetRequest("doctor", mode, "", "torchrun", values))
        except UserError as error:
            problems = error.problems if isinstance(error, Problems) else (error,)
            found += [of_error("values", problem) for problem in problems]
            break
        found += [failed("profile", line, _where(profile)) for line in getattr(target, "unfilled", ())]
        found += [warning("profile", line) for line in getattr(target, "warnings", ())]
    yield from dict.fromkeys(found)
    if not found:
        yield ok("profile", f"{profile.shown}: {' -> '.join(profile.chain)}")


def _where(profile: Profile) -> str:
    return f"set it in [{profile.name}] of {profile.shown}"
