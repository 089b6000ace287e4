"""`env check`: everything that is wrong with an env file, every profile of it, with file and line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.base import TargetRequest
from nemo_runspec.errors import Problems, UserError
from nemo_runspec.profiles.envfile import EnvFile
from nemo_runspec.profiles.fieldset import fields_of
from nemo_runspec.profiles.interpolate import settled_mounts
from nemo_runspec.profiles.profile import Profile, placeholders, resolve_profile, system_section
from nemo_runspec.profiles.system import SYSTEM_SECTIONS
from nemo_runspec.source import Source


@dataclass(frozen=True)
class CheckReport:
    """What was found: errors make `env check` exit 2, warnings do not."""

    profiles: int
    errors: tuple[UserError, ...]
    warnings: tuple[str, ...]


def check_env_file(env: EnvFile) -> CheckReport:
    """Checks strays, system sections and every profile. A problem of a parent is reported once."""
    errors = [*_strays(env), *_system_errors(env)]
    warnings: list[str] = []
    parents = {str(table.get("extends")) for table in env.sections.values()}
    left = placeholders(env.system("wandb"), _sources(env, "wandb"), "[wandb] ")
    errors += [UserError(line, where=env.where("wandb")) for line in left]
    for name in env.profiles:
        try:
            profile = resolve_profile(env, name)
        except Problems as error:
            errors += error.problems
            continue
        except UserError as error:
            errors.append(error)
            continue
        warnings += profile.warnings
        refusals, lacking = _backend_says(env, profile)
        errors += refusals
        if name not in parents:  # what others extend may leave things for its children to fill in
            known = {line.split(" is ")[0] for line in profile.unfilled()}
            lines = [*profile.unfilled(), *(line for line in lacking if line.split(" is ")[0] not in known)]
            errors += [UserError(f"profile '{name}': {line}", where=env.where(name)) for line in lines]
    return CheckReport(len(env.profiles), tuple(_unique(errors)), tuple(dict.fromkeys(warnings)))


def _backend_says(env: EnvFile, profile: Profile) -> tuple[list[UserError], tuple[str, ...]]:
    """What the backend itself would refuse, and what a submission would lack, for a run of this profile alone."""
    defaults = {name: field.default for name, field in fields_of(profile.executor).fields.items()}
    values = {**defaults, "container_image": "image", **settled_mounts(profile.values)}
    try:
        target = get_backend(profile.executor).make_target(
            TargetRequest(name="check", mode="run", kind="", launch="torchrun", env=values)
        )
    except UserError as error:
        return [_placed(env, profile, problem) for problem in getattr(error, "problems", (error,))], ()
    return [], getattr(target, "unfilled", ())


def _placed(env: EnvFile, profile: Profile, error: UserError) -> UserError:
    """A backend's refusal with the line of the key it begins with."""
    key = re.match(r"\w+", error.what)
    source = profile.sources.get(key.group()) if key else None
    where = error.where or (source.place() if source else env.where(profile.name))
    return UserError(error.what, where=where, remedy=error.remedy)


def _system_errors(env: EnvFile) -> list[UserError]:
    """Problems of the system sections, variables that are not set among them."""
    found: list[UserError] = []
    for section in SYSTEM_SECTIONS:
        try:
            system_section(env, section)
        except UserError as error:
            found += getattr(error, "problems", (error,))
    return found


def _sources(env: EnvFile, section: str) -> dict[str, Source]:
    return {key: env.source(section, key) for key in env.system(section)}


def _strays(env: EnvFile) -> list[UserError]:
    return [
        UserError(
            f"'{key}' stands outside any section",
            where=f"{env.shown}:{env.lines.get((key,), 1)}",
            remedy=f"put it under a profile: [my-cluster] above {key} = …",
        )
        for key in env.strays
    ]


def _unique(errors: list[UserError]) -> list[UserError]:
    return list({(e.what, e.where): e for e in errors}.values())
