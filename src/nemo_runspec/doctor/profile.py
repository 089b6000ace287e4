"""Runs the checks of a profile: its values first, then its backend's, then its secrets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nemo_runspec.backends import get_backend
from nemo_runspec.check import Check, CheckRequest, failed, of_error, ok, skipped, warning
from nemo_runspec.doctor import credentials
from nemo_runspec.doctor.trial import merged, try_profile
from nemo_runspec.errors import UserError
from nemo_runspec.profiles.envfile import EnvFile
from nemo_runspec.profiles.profile import Profile, system_section
from nemo_runspec.source import Source


@dataclass(frozen=True)
class CheckedProfile:
    """A profile and the env file it stands in, None for a built-in one."""

    profile: Profile
    file: EnvFile | None = None


def run_checks(checked: CheckedProfile, *, job: bool = False) -> Iterator[Check]:
    """Runs the checks of a profile; yields each as soon as it is known.

    Args:
        job: a small job may be submitted.
    """
    profile = checked.profile
    env = merged(profile)
    usable = True
    for check in _values(checked):
        usable = usable and not (check.verdict == "failed" and check.name == "values")
        yield check
    if usable:
        yield from get_backend(profile.executor).preflight_of(CheckRequest(profile.name, env, job))
    else:
        yield skipped(profile.executor, "not checked: the values above must be mended first")
    yield from credentials.listed(env.get("secrets") or (), env.get("env_vars") or {})
    sections = checked.file.sections if checked.file else {}
    yield from credentials.usual(sections, env.get("secrets") or (), env.get("env_vars") or {})


def _values(checked: CheckedProfile) -> Iterator[Check]:
    """Checks of the values themselves: `values` where no job can be made of them, else `profile`."""
    profile = checked.profile
    found = [failed("profile", line, _where(profile)) for line in profile.unfilled()]
    found += [warning("profile", line) for line in profile.warnings]
    trial = try_profile(profile, *_artifacts(checked.file))
    found += [of_error("values", problem) for problem in trial.refused]
    found += [failed("profile", problem.what, problem.remedy or _where(profile)) for problem in trial.lacking]
    found += [warning("profile", line) for line in trial.warnings]
    yield from dict.fromkeys(found)
    if not found:
        yield ok("profile", f"{profile.shown}: {' -> '.join(profile.chain)}")


def _artifacts(file: EnvFile | None) -> tuple[Any, Source | None]:
    """`[artifacts] root` of a file, and where it stands."""
    try:
        root = system_section(file, "artifacts").get("root") if file else None
    except UserError:
        return None, None  # which is said where the file is checked
    return root, file.source("artifacts", "root") if file and root else None


def _where(profile: Profile) -> str:
    return f"set it in [{profile.name}] of {profile.shown}"
