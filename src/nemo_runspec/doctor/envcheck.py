"""`env check`: everything that is wrong with an env file, every profile of it, with file and line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nemo_runspec.doctor.trial import Trial, place_of, try_profile
from nemo_runspec.errors import Code, Problems, UserError
from nemo_runspec.paths import expand_user
from nemo_runspec.profiles.envfile import EnvFile
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
    root = _root(env)
    parents = {str(table.get("extends")) for table in env.sections.values()}
    left = placeholders(env.system("wandb"), _sources(env, "wandb"), "[wandb] ")
    errors += [line.error(env.where("wandb")) for line in left]
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
        trial = try_profile(profile, root, env.source("artifacts", "root") if root else None)
        errors += [error.at(env.where(profile.name)) for error in trial.refused]
        if name not in parents:  # what others extend may leave things for its children to fill in
            errors += [_OfProfile(name, error.at(env.where(name))) for error in _lacking(profile, trial)]
    return CheckReport(len(env.profiles), tuple(_unique(errors)), tuple(dict.fromkeys(warnings)))


def _lacking(profile: Profile, trial: Trial) -> list[UserError]:
    """What a submission would lack, each key once: what is unfilled, then what the backend itself says."""
    lines = profile.unfilled()
    known = {line.key for line in lines}
    own = [line.error(place_of(profile, line.key)) for line in lines]
    open_places = {error.where for error in own if error.where}
    return [*own, *(error for error in trial.lacking if error.key not in known and error.where not in open_places)]


class _OfProfile(UserError):
    """What one profile lacks. `inner`: the same without the profile's name."""

    def __init__(self, name: str, inner: UserError) -> None:
        super().__init__(f"profile '{name}': {inner.what}", where=inner.where, remedy=inner.remedy)
        self.inner = inner


def _root(env: EnvFile) -> Any:
    """`[artifacts] root`; None where that section has a problem of its own."""
    try:
        return system_section(env, "artifacts").get("root")
    except UserError:
        return None


def _system_errors(env: EnvFile) -> list[UserError]:
    """Problems of the system sections, variables that are not set among them."""
    found: list[UserError] = []
    for section in SYSTEM_SECTIONS:
        try:
            system_section(env, section)
        except UserError as error:
            found += error.problems if isinstance(error, Problems) else (error,)
    return found + _no_folder(env)


def _no_folder(env: EnvFile) -> list[UserError]:
    """`[cache] git_dir`, where it can be no folder of this machine."""
    named = env.system("cache").get("git_dir")
    try:
        expand_user(str(named or ""), "git_dir")
    except UserError as error:
        return [error.at(env.where("cache", "git_dir"))]
    return []


def _sources(env: EnvFile, section: str) -> dict[str, Source]:
    return {key: env.source(section, key) for key in env.system(section)}


def _strays(env: EnvFile) -> list[UserError]:
    return [
        UserError(
            f"'{key}' stands outside any section",
            where=f"{file.shown}:{file.lines.get((key,), 1)}",
            remedy=f"put it under a profile: [my-cluster] above {key} = …",
        )
        for file in env.files
        for key in file.strays
    ]


def _unique(errors: list[UserError]) -> list[UserError]:
    """Each mistake once: what a parent says wrongly, all its children inherit, by the same line of the file."""
    found: dict[tuple[str | None, ...], UserError] = {}
    for error in errors:
        found.setdefault(_identity(error.inner if isinstance(error, _OfProfile) else error), error)
    return list(found.values())


def _identity(error: UserError) -> tuple[str | None, ...]:
    """What two profiles with the same mistake have in common. One message names the profile; its remedy does not."""
    if error.code is Code.UNSET_VARIABLE:
        return error.code, error.key, error.where, error.remedy
    return error.what, error.where
