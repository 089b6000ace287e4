"""`env check`: everything that is wrong with an env file, every profile of it, with file and line."""

from __future__ import annotations

from dataclasses import dataclass

from nemo_runspec.errors import Problems, UserError
from nemo_runspec.profiles.envfile import EnvFile
from nemo_runspec.profiles.profile import placeholders, resolve_profile, system_problems
from nemo_runspec.source import Source


@dataclass(frozen=True)
class CheckReport:
    """What was found: errors make `env check` exit 2, warnings do not."""

    profiles: int
    errors: tuple[UserError, ...]
    warnings: tuple[str, ...]


def check_env_file(env: EnvFile) -> CheckReport:
    """Checks strays, system sections and every profile. A problem of a parent is reported once."""
    errors = [*_strays(env), *(problem for _, problem in system_problems(env))]
    warnings: list[str] = []
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
        if not _is_parent(env, name):
            errors += [UserError(f"profile '{name}': {line}", where=env.where(name)) for line in profile.unfilled()]
    return CheckReport(len(env.profiles), tuple(_unique(errors)), tuple(dict.fromkeys(warnings)))


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


def _is_parent(env: EnvFile, name: str) -> bool:
    """A profile that others extend may leave things for its children to fill in."""
    return any(table.get("extends") == name for table in env.sections.values())


def _unique(errors: list[UserError]) -> list[UserError]:
    return list({(e.what, e.where): e for e in errors}.values())
