"""`env check`: everything that is wrong with an env file, every profile of it, with file and line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from nemo_runspec.doctor.linked import Linked
from nemo_runspec.doctor.trial import Trial, place_of, try_profile
from nemo_runspec.errors import Code, Problems, Unfilled, UserError
from nemo_runspec.paths import expand_user
from nemo_runspec.profiles.envfile import EnvFile
from nemo_runspec.profiles.profile import Profile, placeholders, read_profile, system_section
from nemo_runspec.profiles.system import SYSTEM_SECTIONS
from nemo_runspec.redact import HIDDEN
from nemo_runspec.secret_names import is_secret_name
from nemo_runspec.source import Source
from nemo_runspec.text import count

_OPEN = (Code.PLACEHOLDER, Code.REQUIRED, Code.UNSET_VARIABLE)


@dataclass(frozen=True)
class CheckReport:
    """What was found: errors make `env check` exit 2, warnings do not.

    Args:
        profiles: how many there are.
        wrong: those with which no job could be submitted.
        errors: in the order of their lines.
        warnings: what is odd but harmless.
    """

    profiles: int
    wrong: tuple[str, ...]
    errors: tuple[UserError, ...]
    warnings: tuple[str, ...]

    @property
    def open(self) -> tuple[UserError, ...]:
        """The errors that say what is still to be filled in; the others are mistakes."""
        return tuple(error for error in self.errors if error.code in _OPEN)


def check_env_file(env: EnvFile, *, alone: bool = False) -> CheckReport:
    """Checks strays, system sections and every profile, all in one pass. A problem of a parent is reported once.

    Args:
        alone: say nothing of the user's own file below it, whose profiles it may extend.
    """
    errors = [*_strays(env), *_system_errors(env)]
    warnings: list[str] = []
    said: dict[str, list[str]] = {}
    wrong = []
    root = _root(env)
    parents = {str(table.get("extends")) for table in env.sections.values()}
    left = placeholders(env.system("wandb"), _sources(env, "wandb"), "[wandb] ")
    errors += [_placed(line, env.where("wandb", line.key.partition("] ")[2])) for line in left]
    fits = Linked(env)
    names = [name for name in env.profiles if not alone or env.file_of(name) is env]
    for name in names:
        found, odd, tried = _problems_of(env, name, root, fits, parent=name in parents)
        errors += found
        warnings += odd
        for line in tried:
            said.setdefault(line, []).append(name)
        wrong += [name] if found else []
    places = {error: place_in(env, error) or (len(env.files) + 1, 0) for error in _unique(errors)}
    ordered = sorted((error for error in places if not alone or places[error][0] != 1), key=places.__getitem__)
    warnings += [_said_of_all(line, profiles) for line, profiles in said.items()]
    return CheckReport(len(names), tuple(wrong), tuple(ordered), tuple(dict.fromkeys(warnings)))


def mistake_of(error: UserError) -> str:
    """What is wrong, whatever profiles it is true of."""
    return error.inner.what if isinstance(error, _OfProfile) else error.what


def place_in(env: EnvFile, error: UserError) -> tuple[int, int] | None:
    """Which of the files an error is in, and its line, counted from 1; None for one that has no place in them."""
    for number, file in enumerate(env.files):
        match = re.match(r":(\d+)", (error.where or "").removeprefix(file.shown))
        if match and (error.where or "").startswith(file.shown):
            return number, int(match[1])
    return None


_KEY = re.compile(r"""([\w.-]+)["']?\s*=""")
_REFERENCE = re.compile(r"""\s*["']\$\{[^{},]*(?:,(?:'')?)?\}["']\s*""")


def line_of(env: EnvFile, error: UserError) -> str:
    """The line of the file that an error is in, without a value that is or may be a secret; '' where it has none.

    A key that nobody knows may be that of a secret, unless it is clear which one was meant; a table may hold one.
    """
    place = place_in(env, error)
    if place is None:
        return ""
    line = env.files[place[0]].text[place[1] - 1].strip()
    key, equals, value = line.partition("=")
    names = [*_KEY.findall(line), error.key]
    secret = any(map(is_secret_name, names)) or (error.code is Code.UNKNOWN_KEY and not error.key)
    return f"{key}= {HIDDEN}" if equals and secret and not _REFERENCE.fullmatch(value) else line


def _problems_of(
    env: EnvFile, name: str, root: Any, fits: Linked, *, parent: bool
) -> tuple[list[UserError], tuple[str, ...], tuple[str, ...]]:
    """What is wrong with a profile, what is odd, and what is odd of jobs on it.

    What others extend may leave things for them to fill in.
    """
    try:
        profile, problems = read_profile(env, name)
    except UserError as error:
        return [error], (), ()
    trial = try_profile(profile, root, env.source("artifacts", "root") if root else None)
    known = {problem.key.partition(".")[0] for problem in problems if problem.key}
    refused = [error.at(env.where(name)) for error in trial.refused if error.key not in known]
    fit = fits.fit(profile)
    lacking = [] if parent else [error for error in _lacking(profile, trial) if error.key not in known]
    own = [_OfProfile(name, error.at(env.where(name))) for error in (*lacking, *fit.errors)]
    return [*problems, *refused, *own], (*profile.warnings, *fit.warnings), trial.warnings


def _lacking(profile: Profile, trial: Trial) -> list[UserError]:
    """What a submission would lack, each key once: what is unfilled, then what the backend itself says."""
    lines = profile.unfilled()
    known = {line.key for line in lines}
    own = [_placed(line, place_of(profile, line.key)) for line in lines]
    open_places = {error.where for error in own if error.where}
    return [*own, *(error for error in trial.lacking if error.key not in known and error.where not in open_places)]


def _placed(line: Unfilled, where: str | None) -> UserError:
    """The line as an error, which says its place but once."""
    return UserError(line.removesuffix(f" ({where})"), where=where, code=line.code, key=line.key)


class _OfProfile(UserError):
    """What a profile lacks. `inner`: the same without its name; `others`: of how many profiles it is true besides."""

    def __init__(self, name: str, inner: UserError, others: int = 0) -> None:
        more = f" and {count(others, 'other')}" if others else ""
        what = f"profile '{name}'{more}: {inner.what}"
        super().__init__(what, where=inner.where, remedy=inner.remedy, code=inner.code, key=inner.key)
        self.name, self.inner = name, inner


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
    found: dict[tuple[str | None, ...], list[UserError]] = {}
    for error in errors:
        found.setdefault(_identity(error.inner if isinstance(error, _OfProfile) else error), []).append(error)
    return [_of_all(same) for same in found.values()]


def _said_of_all(line: str, profiles: list[str]) -> str:
    more = f" and {count(len(profiles) - 1, 'other')}" if len(profiles) > 1 else ""
    return f"profile '{profiles[0]}'{more}: {line}"


def _of_all(same: list[UserError]) -> UserError:
    """One mistake of several profiles, told of the first of them."""
    first = same[0]
    named = {error.name for error in same if isinstance(error, _OfProfile)}
    return _OfProfile(first.name, first.inner, len(named) - 1) if isinstance(first, _OfProfile) else first


def _identity(error: UserError) -> tuple[str | None, ...]:
    """What two profiles with the same mistake have in common. One message names the profile; its remedy does not."""
    if error.code is Code.UNSET_VARIABLE:
        return error.code, error.key, error.where, error.remedy
    return error.what, error.where
