"""A profile by name, out of the env file in force."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nemo_runspec.backends import DEFAULT_EXECUTOR
from nemo_runspec.errors import UserError
from nemo_runspec.profiles.envfile import EnvFile, load_env_file
from nemo_runspec.profiles.find import DEFAULT_NAME, ENV_VARIABLE, find_env_file, find_user_file, user_path
from nemo_runspec.profiles.profile import Profile, resolve_profile
from nemo_runspec.source import display_path
from nemo_runspec.trust import Untrusted, owner_of

BUILT_IN = "local"
"""The one profile that is there without being written: this machine, with every default."""


def load_profile(name: str, env_file: Path | None = None) -> tuple[Profile, EnvFile | None]:
    """The profile and the file it came from, None for `local` where there is none.

    Raises:
        UserError: no env file, no such profile, or any problem in its chain.
    """
    env = load_env_files(env_file or find_env_file())
    if name == BUILT_IN and (env is None or name not in env.profiles):
        path = env.path if env else Path(DEFAULT_NAME)
        return Profile(name, path, "built in", (name,), DEFAULT_EXECUTOR, {}, {}), env
    if env is None:
        raise UserError(
            f"profile '{name}' needs an {DEFAULT_NAME}, and there is none from {Path.cwd()} upwards",
            remedy=f"begin with: nemotron init; or set {ENV_VARIABLE}",
        )
    profile = resolve_profile(env, name)
    return replace(profile, warnings=(*owner_warning(env), *profile.warnings)), env


def required_env_file() -> EnvFile:
    """The env file in force, for what is about nothing else.

    Raises:
        UserError: there is none, or it cannot be read, or is not obeyed.
    """
    env = load_env_files(find_env_file())
    if env is None:
        raise UserError(
            f"there is no {DEFAULT_NAME} from {Path.cwd()} upwards, and no {display_path(user_path())}",
            remedy=f"begin with: nemotron init; or set {ENV_VARIABLE}",
        )
    return env


def owner_warning(env: EnvFile) -> tuple[str, ...]:
    """That an env file is somebody else's, who is obeyed as it was named; nothing for one of the user's own."""
    owners = [(file.shown, owner_of(file.path)) for file in env.files]
    return tuple(f"the env file {shown} belongs to {owner}" for shown, owner in owners if owner)


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
        path = None
    return load_env_files(path)


def load_env_files(path: Path | None) -> EnvFile | None:
    """An env file with the user's own below it; the user's own alone where there is no other.

    Raises:
        UserError: the user's own is not obeyed, see `trust`, or one of them cannot be read.
    """
    if path is not None:
        return above_users(load_env_file(path))
    users = find_user_file()
    return load_env_file(users, users=True) if users else None


def above_users(env: EnvFile) -> EnvFile:
    """An env file with the user's own below it, unless it is that itself.

    Raises:
        UserError: the user's own is not obeyed, see `trust`, or cannot be read.
    """
    users = find_user_file()
    if users is None:
        return env
    return (
        replace(env, users=True)
        if env.path.resolve() == users.resolve()
        else env.above(load_env_file(users, users=True))
    )
