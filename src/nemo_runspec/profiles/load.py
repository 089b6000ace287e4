"""A profile by name, out of the env file in force."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nemo_runspec.errors import UserError
from nemo_runspec.profiles.envfile import EnvFile, load_env_file
from nemo_runspec.profiles.executor import DEFAULT_EXECUTOR
from nemo_runspec.profiles.find import DEFAULT_NAME, ENV_VARIABLE, find_env_file
from nemo_runspec.profiles.profile import Profile, resolve_profile
from nemo_runspec.trust import Untrusted, owner_of

BUILT_IN = "local"
"""The one profile that is there without being written: this machine, with every default."""


def load_profile(name: str, env_file: Path | None = None) -> tuple[Profile, EnvFile | None]:
    """The profile and the file it came from, None for `local` where there is none.

    Raises:
        UserError: no env file, no such profile, or any problem in its chain.
    """
    path = env_file or find_env_file()
    env = load_env_file(path) if path else None
    if name == BUILT_IN and (env is None or name not in env.profiles):
        return Profile(name, path or Path(DEFAULT_NAME), "built in", (name,), DEFAULT_EXECUTOR, {}, {}), env
    if env is None:
        raise UserError(
            f"profile '{name}' needs an {DEFAULT_NAME}, and there is none from {Path.cwd()} upwards",
            remedy=f"begin with: nemotron env example > {DEFAULT_NAME}; or set {ENV_VARIABLE}",
        )
    profile = resolve_profile(env, name)
    return replace(profile, warnings=(*owner_warning(env), *profile.warnings)), env


def owner_warning(env: EnvFile) -> tuple[str, ...]:
    """That an env file is somebody else's, who is obeyed as it was named; nothing for one of the user's own."""
    owner = owner_of(env.path)
    return (f"the env file {env.shown} belongs to {owner}",) if owner else ()


def env_file_in_force() -> EnvFile | None:
    """The env file whose system sections count for a run without a profile; None where there is none.

    A missing file named by `NEMOTRON_ENV_FILE` is no error here: a plain local run needs no profile.

    Raises:
        UserError: the one that was found is not obeyed, see `trust`, or cannot be read.
    """
    try:
        path = find_env_file()
    except Untrusted:
        raise
    except UserError:
        return None
    return load_env_file(path) if path else None
